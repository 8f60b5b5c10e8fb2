"""`gcal.events`: the events of a calendar in a range of time."""

from __future__ import annotations

import re
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta
from typing import Any, Final, cast

from msgspec import Struct

from holdfast.contract.context import Context
from holdfast.contract.json import Args, Json
from holdfast.contract.result import Result, ok
from holdfast.text.quote import behind_gutter
from holdfast.tools.google.results import (
    PAGE,
    clean_text,
    in_quotes,
    joined,
    moment,
    more_line,
    one_line,
    page_token,
    preview,
    quoted_name,
    zone_of,
)
from holdfast.tools.google.service import ApiSession, GoogleFailed, api_tool
from holdfast.tools.schemas import BOOLEAN, LABEL, STRING, STRING_OR_NULL, array, nullable, strict_object

DEFAULT_LIMIT: Final = 25
MAX_LIMIT: Final = 100
MAX_ATTENDEES: Final = 20
_DEFAULT_DAYS: Final = 7
_DESCRIPTION_CHARS: Final = 1000
_ADDRESS: Final = re.compile(r"[^\s«»(),;]+")


class _Person(Struct, frozen=True, rename="camel"):
    email: str = ""
    display_name: str = ""
    response_status: str = ""


class _When(Struct, frozen=True, rename="camel"):
    date: str = ""
    date_time: str = ""
    time_zone: str = ""


class _Event(Struct, frozen=True, rename="camel"):
    id: str = ""
    status: str = ""
    summary: str = ""
    description: str = ""
    location: str = ""
    start: _When = _When()
    end: _When = _When()
    organizer: _Person = _Person()
    attendees: tuple[_Person, ...] = ()
    attendees_omitted: bool = False
    recurring_event_id: str = ""
    hangout_link: str = ""


class _EventList(Struct, frozen=True, rename="camel"):
    summary: str = ""
    time_zone: str = ""
    items: tuple[_Event, ...] = ()
    next_page_token: str = ""


async def _events(args: Args, ctx: Context, api: ApiSession) -> Result:
    calendar = str(args.get("calendar") or "primary")
    limit, zone = cast("int | None", args.get("limit")) or DEFAULT_LIMIT, zone_of(cast("str | None", args.get("zone")))
    given_from, given_to = cast("str | None", args.get("from")), cast("str | None", args.get("to"))
    start = datetime.now(UTC).astimezone(zone) if given_from is None else moment(given_from, zone)
    end = _week_after(start) if given_to is None else moment(given_to, zone, end=True)
    if end <= start:
        raise GoogleFailed(f"The range ends ({_iso(end)}) before it starts ({_iso(start)}).")
    query = {
        "singleEvents": True,  # recurring events as their occurrences
        "orderBy": "startTime",
        "timeMin": _iso(start.astimezone(UTC)),  # the offset of an old date can have seconds, which RFC 3339 has not
        "timeMax": _iso(end.astimezone(UTC)),
        "q": cast("str | None", args.get("query")),
        "maxResults": limit,
        "maxAttendees": MAX_ATTENDEES,
        "timeZone": cast("str | None", args.get("zone")),
        "pageToken": cast("str | None", args.get("page")),
    }
    what = f"calendar '{one_line(calendar, 80)}'"
    found = await api.read(_EventList, "calendar", "v3", "calendars", calendar, "events", query=query, what=what)
    output: Args = {
        "calendar": one_line(found.summary) or calendar,
        "zone": one_line(found.time_zone, 60),
        "from": _iso(start),
        "to": _iso(end),
        "events": [_event(each, found.time_zone) for each in found.items[:limit]],
        "next_page": page_token(found.next_page_token),
    }
    return ok(_text(output), structured=output)


def _week_after(start: datetime) -> datetime:
    try:
        end = start + timedelta(days=_DEFAULT_DAYS)
        end.astimezone(UTC)  # as it is sent
    except OverflowError:
        raise GoogleFailed(f"A week after {_iso(start)} is beyond the last day that there is. Give an end.") from None
    return end


def _iso(at: datetime) -> str:
    return at.isoformat(timespec="seconds")


def _event(event: _Event, zone: str) -> Json:
    description = clean_text(event.description)
    if len(description) > _DESCRIPTION_CHARS:
        description = f"{description[: _DESCRIPTION_CHARS - 1]}…"
    return {
        "id": one_line(event.id, 200),
        "title": one_line(event.summary),
        "all_day": bool(event.start.date),
        "start": one_line(event.start.date or event.start.date_time, 60),
        "end": one_line(event.end.date or event.end.date_time, 60),
        "zone": one_line(event.start.time_zone or zone, 60),
        "status": one_line(event.status, 40),
        "location": one_line(event.location) or None,
        "organizer": _person(event.organizer) if event.organizer.email else None,
        "attendees": [_person(each) for each in event.attendees[:MAX_ATTENDEES]],
        "more_attendees": event.attendees_omitted or len(event.attendees) > MAX_ATTENDEES,
        "recurring": bool(event.recurring_event_id),
        "meeting": one_line(event.hangout_link) or None,
        "description": description or None,
    }


def _person(each: _Person) -> Json:
    return {
        "address": one_line(each.email),
        "name": quoted_name(each.display_name, 100),
        "response": one_line(each.response_status, 40),
    }


def _text(output: Args) -> str:
    events = cast("list[dict[str, Any]]", output["events"])
    calendar, zone = in_quotes(str(output["calendar"])), output["zone"] or "no zone"
    heading = f"{calendar} from {output['from']} to {output['to']}, times in {zone}"
    if not events:
        return f"{heading}: no events."
    lines = [f"{heading}:"]
    for each in events:
        lines += ["", f"{_when(each)}  {in_quotes(each['title'], '(no title)')}  (id {each['id']}; {_marks(each)})"]
        if each["location"]:
            lines.append(f"  Where: {each['location']}")
        if each["meeting"]:
            lines.append(f"  Meeting: {each['meeting']}")
        if each["attendees"]:
            more = ", and more" if each["more_attendees"] else ""
            lines.append(f"  Attendees: {', '.join(_shown(person) for person in each['attendees'])}{more}")
        if each["description"]:
            lines.append(behind_gutter(each["description"]))
    return "\n".join([*lines, *more_line(cast("str | None", output["next_page"]))])


def _when(each: dict[str, Any]) -> str:
    if not each["all_day"]:
        return f"{each['start']} – {each['end']}"
    last = each["end"]
    with suppress(ValueError, OverflowError):
        last = (date.fromisoformat(last) - timedelta(days=1)).isoformat()  # Google gives the day after
    return f"{each['start']} (all day)" if last == each["start"] else f"{each['start']} – {last} (all day)"


def _marks(each: dict[str, Any]) -> str:
    organizer = each["organizer"]
    return joined(
        (
            each["status"],
            "recurring" if each["recurring"] else None,
            f"zone {each['zone']}" if each["zone"] and not each["all_day"] else None,
            f"organized by {_shown(organizer)}" if organizer else None,
        )
    )


def _shown(person: dict[str, str]) -> str:
    name = f" («{person['name']}»)" if person["name"] else ""
    response = f" {person['response']}" if person["response"] else ""
    address = person["address"] if _ADDRESS.fullmatch(person["address"]) else in_quotes(person["address"], "no address")
    return f"{address}{name}{response}"


_PERSON: Final = strict_object(address=STRING, name=STRING, response=STRING)
_OUTPUT_EVENT: Final = strict_object(
    id=STRING,
    title=STRING,
    all_day=BOOLEAN,
    start=STRING,
    end={**STRING, "description": "For an all-day event the day after its last day."},
    zone=STRING,
    status=STRING,
    location=STRING_OR_NULL,
    organizer={**_PERSON, "type": ["object", "null"]},
    attendees=array(_PERSON),
    more_attendees=BOOLEAN,
    recurring=BOOLEAN,
    meeting=STRING_OR_NULL,
    description=STRING_OR_NULL,
)

GCAL_EVENTS: Final = api_tool(
    "gcal",
    _events,
    name="gcal.events",
    source="calendar",
    description=(
        "List the events of a calendar in a range of time, recurring events as their occurrences. Times carry their "
        "zone."
    ),
    input_schema=strict_object(
        **{
            "calendar": nullable("string", "The id of a calendar (default: the main one).", minLength=1, maxLength=300),
            "from": nullable("string", "Start, as 2026-03-01 or 2026-03-01T09:00+01:00 (default: now).", maxLength=60),
            "to": nullable("string", "End; a day is included (default: seven days after the start).", maxLength=60),
            "query": nullable("string", "Words that the event must contain.", maxLength=500),
            "zone": nullable("string", "IANA time zone of times without one, and of the result.", maxLength=60),
            "limit": nullable("integer", "Number of events (default 25).", minimum=1, maximum=MAX_LIMIT),
            "page": PAGE,
            "label": LABEL,
        }
    ),
    output_schema=strict_object(
        **{
            "calendar": STRING,
            "zone": STRING,
            "from": STRING,
            "to": STRING,
            "events": array(_OUTPUT_EVENT),
            "next_page": STRING_OR_NULL,
        }
    ),
    format_preview=preview("calendar", "from", "to", "query"),
)
