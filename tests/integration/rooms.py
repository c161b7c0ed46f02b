#!/usr/bin/env python3
"""The house of docs/architecture.md: every file of cache/ and vfd/ stands in a room, a room knows only the rooms that
ROOMS names for it, and no files use each other in a circle.

A unit is x.c with x.h. A unit uses another if it includes its header, or names a function or variable that the other's
.c defines: so a header that declares the functions of several files hides nothing. The test prints the floors: a unit
stands one floor above the highest unit that it uses.

The circles that still stand are in STANDING_CIRCLES. The table can only shrink: a unit in a circle that is not in the
table fails the test, and so does an entry of a unit that is in no circle any more."""
import functools
import pathlib
import re
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import harness  # noqa: E402

# ---- the plan of the house ---------------------------------------------------------------------------------------

# The rooms, from the ground up. The first string says what is in a room: a folder ("cache/shadow/", without the
# folders in it and the units that another room names) or single units ("cache/base/err"). The second names the rooms
# that it may use, or only some headers of a room ("origin:origin.h,dav.h"; "driver:-" is none of them: only what the
# public header declares). A room uses rooms that stand before it in this table alone, but where a circle stands.
ROOMS = {
    "base": ("cache/base/ cache/watch/stats cache/watch/timeline cache/watch/trace", ""),
    "chunkindex": ("cache/format/chunkindex/", "base:bytes.h,extent.h,hdf5.h,holes.h,table.h"),
    "format": ("cache/format/", "base:bytes.h,extent.h,hdf5.h,table.h chunkindex:btree2.h"),
    "policy": ("cache/policy", "base:extent.h,links.h"),
    "plans": (
        "cache/pages/plan cache/ahead/counted cache/ahead/likeness cache/ahead/predict cache/ahead/turns "
        "cache/ahead/shifts cache/ahead/twins cache/ahead/weave",
        "base policy"),
    "overlay": ("cache/overlay/", "base"),
    "shadow": ("cache/shadow/", "base"),
    "disk": ("cache/disk/", "base shadow:shadow.h"),
    "localfs": ("cache/localfs/", "base shadow:shadow.h"),
    # What vfd/ and the tool see of the cache. Its functions are defined in open/ and read/: "open:-" lets a room call
    # those.
    "face": ("cache/cache", "base"),
    "watch": ("cache/watch/", "base shadow:shadow.h face"),
    "text": (
        "cache/origin/ring cache/origin/url cache/origin/s3 cache/origin/profile cache/origin/proxy "
        "cache/origin/response cache/origin/multipart cache/origin/dialect cache/origin/tls_advice "
        "cache/origin/cookies cache/origin/xml",
        "base:date.h,err.h,env.h,escape.h,hash.h,hdf5.h,letters.h,now.h,number.h,sha256.h,wipe.h"),
    "creds": (
        "cache/origin/auth cache/origin/netrc cache/origin/token cache/origin/s3keys cache/origin/s3process "
        "cache/origin/login cache/origin/session",
        "base text:url.h,s3.h,profile.h,cookies.h"),
    "wire": (
        "cache/origin/net cache/origin/wire cache/origin/handle cache/origin/client cache/origin/libcurl",
        "base:crypto.h,files.h,now.h,table.h,waits.h,wipe.h text:ring.h,proxy.h,cookies.h"),
    "caller": ("cache/origin/caller cache/origin/s3metadata", "base text creds wire:net.h,handle.h,client.h,libcurl.h"),
    # What origin/ is asked for, and what it brings: types. The functions are defined further up: "origin:-" lets a room
    # call those.
    "asked": ("cache/origin/origin", "base watch:stats.h"),
    "exchange": (
        "cache/origin/exchange cache/origin/exchange_impl cache/origin/exchange_headers cache/origin/exchange_bytes",
        "base watch text creds:auth.h,session.h wire:wire.h asked"),
    "verdict": (
        "cache/origin/attempt cache/origin/sentence cache/origin/sentence_s3 cache/origin/verdict "
        "cache/origin/verdict_s3",
        "base:date.h,err.h,letters.h,options.h text creds:auth.h,login.h,session.h wire:wire.h exchange"),
    "control": (
        "cache/origin/control cache/origin/hedge cache/origin/link", "base:links.h,now.h,options.h asked exchange"),
    "engine": (
        "cache/origin/engine cache/origin/origin_object cache/origin/request cache/origin/endpoint cache/origin/job "
        "cache/origin/learn cache/origin/send cache/origin/rest cache/origin/loop cache/origin/way "
        "cache/origin/s3regions",
        "base watch text creds wire caller asked exchange verdict control"),
    "origin": ("cache/origin/", "base watch text creds wire caller asked exchange verdict control engine"),
    "replicas": ("cache/replicas/", "base text:url.h asked origin:-"),
    "together": (
        "cache/open/opening cache/open/expected",
        "base face watch shadow:shadow.h disk:disk.h asked origin:- replicas:replicas.h"),
    "object": ("cache/object", "base face watch policy shadow:shadow.h replicas:replicas.h"),
    "pages": (
        "cache/pages/", "base face watch policy plans shadow:shadow.h disk:disk.h replicas:replicas.h object"),
    "stream": (
        "cache/stream/", "base face watch plans policy shadow:shadow.h disk:disk.h replicas:replicas.h object pages"),
    "source": (
        "cache/source/",
        "base face watch policy replicas:replicas.h shadow:shadow.h disk:disk.h object pages stream together"),
    "ahead": (
        "cache/ahead/",
        "base face watch policy chunkindex:chunkindex.h format plans shadow:shadow.h disk:disk.h replicas:replicas.h "
        "object pages stream source together:expected.h"),
    "read": (
        "cache/read/",
        "base face watch policy plans shadow:shadow.h disk:disk.h replicas:replicas.h object pages stream source "
        "ahead"),
    "open": (
        "cache/open/",
        "base face watch policy format plans chunkindex:chunkindex.h shadow:shadow.h disk:disk.h asked origin:- "
        "replicas:replicas.h object together pages stream source ahead read"),
    "edit": ("cache/edit/",
        "base face watch format:messages.h overlay:overlay.h,extents.h origin:dav.h open:mistaken.h read:-"),
    "vfd": ("vfd/", "base face localfs:localfs.h edit:edit.h open:mistaken.h read:-"),
    "mpi": ("vfd/mpi/", "base face open:mistaken.h read:- vfd"),
    "driver": ("vfd/driver vfd/config vfd/mpi/fapl_mpi", "base vfd mpi"),
    "tool": (
        "vfd/tool/",
        "base face shadow:shadow.h,image.h source:metaimage.h,packed.h edit:edit.h open:mistaken.h "
        "read:- vfd:xhdf5.h,unsaid.h,inside.h driver:-"),
}

# Units that may use more than their room: the doctor asks servers itself, as the origin would.
MORE = {f"vfd/tool/{unit}": "text:dialect.h,proxy.h,response.h,s3.h,tls_advice.h,url.h wire caller creds:auth.h,login.h"
        for unit in ("dial", "doctor", "extras", "habits", "list_at", "way", "whole")}
MORE["vfd/tool/listing"] = "text:response.h,s3.h,xml.h"

# The circles that still stand: {name: "units"}.
STANDING_CIRCLES = {}

# ---- more rules, each for some files ------------------------------------------------------------------------------

# Computes only: no files, no network, no clock, no threads.
PURE = set("""
    cache/format/contiguous cache/format/globalheap cache/format/messages cache/format/metaindex cache/format/metaparse
    cache/pages/plan cache/ahead/counted cache/ahead/likeness cache/ahead/predict cache/ahead/shifts cache/ahead/turns cache/ahead/twins cache/ahead/weave
    cache/policy cache/base/pace
    cache/format/chunkindex/
    cache/origin/cookies cache/origin/profile cache/origin/response cache/origin/s3 cache/origin/xml
    cache/origin/sentence cache/origin/sentence_s3
    cache/origin/verdict cache/origin/verdict_s3
    cache/overlay/extents
    cache/replicas/choice cache/replicas/list
    cache/source/judge cache/source/metaimage cache/source/packed cache/source/version
    vfd/lineup vfd/literal vfd/mapping vfd/unsaid vfd/unsigned vfd/tool/front vfd/tool/listing
""".split())
IO_HEADERS = {"unistd.h", "fcntl.h", "sys/socket.h", "sys/mman.h", "time.h", "pthread.h"}

# Units outside the room vfd that may include these headers of other libraries.
MAY_INCLUDE = {
    "hdf5.h": set("vfd/tool/survey vfd/tool/look vfd/tool/h5open vfd/mpi/".split()),
    "curl/": set("cache/origin/url cache/origin/wire cache/origin/handle cache/origin/client "
                 "cache/origin/libcurl".split()),
    "sys/socket.h": set("cache/origin/wire vfd/tool/".split()),
    "mpi.h": set("vfd/mpi/ vfd/xhdf5_mpi".split()),
    "fuse_lowlevel.h": {"vfd/tool/fuse"},
    "jansson.h": set("cache/origin/token cache/origin/s3keys vfd/tool/".split()),
    "lz4frame.h": set("cache/source/packed vfd/tool/pack_way".split()),
    "zstd.h": set("cache/source/metaimage cache/source/packed vfd/tool/bake vfd/tool/pack_way".split()),
}
PRINTS_ITS_OWN = {"cache/base/err", "cache/watch/trace", "cache/watch/account", "cache/localfs/localfs"}
READS_THE_ENVIRONMENT = {"cache/base/options"}  # of XHDF5_* variables; cache/base/env.c keeps the others
WAITS_FOR_A_TIME = {"cache/base/waits"}
TELLS_WALL_TIME = {"cache/localfs/localfs"}  # compares it with the dates of files

# Members of struct xh_file (cache/object.h), with all that they point to, and who alone may change them. A pointer to a
# struct that a header of cache/ defines has no row: that header's own .c changes it (owners).
WRITERS = {
    "cache/open/": "above opt url url_shown validator fleeting unsettled size changed_s origin shadow disk "
                   "spare_bytes no_parts "
                   "opened_jointly others_wait account own asked_ns answered_ns hits_before",
    "cache/read/read": "failed",
    "cache/object cache/open/cache": "process",
    "cache/source/metadata_image cache/open/": "image",
    "cache/source/compressed cache/source/frames cache/open/": "compressed",
    "cache/ahead/head cache/open/": "head_rest",
    "cache/ahead/schedule cache/ahead/whole": "whole",
    "cache/stream/": "stage",
}


# ---- what a file uses ----------------------------------------------------------------------------------------------

def plain(text):
    """|text| without comments, with empty strings."""
    token = r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\''
    return re.sub(token, lambda m: {'"': '""', "'": "0"}.get(m[0][0], " "), text, flags=re.S)


DIRECTIVE = r"^[ \t]*#(?:[^\n\\]|\\.)*"


def outer_and_inner(text):
    """Plain |text| outside of all braces, each pair left as {}, and what is inside of them; no macros."""
    text = re.sub(r'extern\s*""\s*\{', "", re.sub(DIRECTIVE, "", text, flags=re.M | re.S))
    parts, depth = ([], []), 0
    for piece in re.split(r"([{}])", text):
        depth = max(0, depth - (piece == "}"))
        parts[depth > 0].append(piece)
        depth += piece == "{"
    return "".join(parts[0]), "".join(parts[1])


def macros(text):
    """{name: words of its body} of the macros in the plain |text| of a header."""
    lines = re.findall(r"^[ \t]*#\s*define\s+(\w+)((?:[^\n\\]|\\.)*)", text, re.M | re.S)
    return {name: set(re.findall(r"\w+", body)) for name, body in lines}


def defined(text):
    """Names of the functions and variables that a .c with the plain |text| has for other files."""
    outer, _ = outer_and_inner(re.sub(r"__attribute__\s*\(\((?:[^()]|\([^()]*\))*\)\)", "", text))
    names = set()
    for statement in re.split(r";", re.sub(r"\)\s*\{\}", ")={};", outer)):
        statement = statement.strip()
        if re.match(r"(static|extern|typedef|_Static_assert)\b", statement):
            continue
        function = re.match(r"[\w\s*]+?\b(\w+)\s*\(.*\)=\{\}$", statement, re.S)
        variable = re.match(r"(?:struct |enum |union )?\w+[\w\s*]*?[\s*](\w+)\s*(?:\[[^]]*\]\s*)*(?:=|$)", statement)
        names |= {found[1] for found in (function, variable) if found}
    return names


class House:
    """The sources of a checkout, |top|: which unit uses which, and by what."""

    def __init__(self, top):
        self.top = top
        files = [p for folder in ("cache", "vfd") for p in (top / folder).rglob("*.*")]
        self.files = {p.relative_to(top).as_posix(): p.read_text()
                      for p in sorted(files) if p.suffix in (".c", ".h", ".def")}
        self.units = sorted({self.unit(name) for name in self.files})
        self.plain = {name: plain(text) for name, text in self.files.items()}
        self.unknown = []  # includes of files that are not there
        self.uses = {unit: {} for unit in self.units}  # unit -> unit that it uses -> by what
        self._find_includes()
        self._find_names()

    @staticmethod
    def unit(name):
        return name.rpartition(".")[0]

    def included(self, name, marks='<"'):
        """What |name| includes, as written there."""
        return re.findall(r'^\s*#\s*include\s*[%s]([^>"]+)[>"]' % marks, self.files[name], re.M)

    def _find(self, name, written):
        """The file that |name| means by |written|: beside it, else in cache/ or vfd/."""
        for folder in ((self.top / name).parent, self.top / "cache", self.top / "vfd"):
            path = (folder / written).resolve()
            if path.is_relative_to(self.top) and path.relative_to(self.top).as_posix() in self.files:
                return path.relative_to(self.top).as_posix()
        return None

    def _add(self, unit, other, by):
        if unit != other:
            self.uses[unit].setdefault(other, set()).add(by)

    def _find_includes(self):
        for name in self.files:
            for written in self.included(name, '"'):
                other = self._find(name, written)
                if other:
                    self._add(self.unit(name), self.unit(other), other)
                else:
                    self.unknown.append(f"{name} includes {written}")

    def _find_names(self):
        owners, meant = {}, {}
        for name, text in self.plain.items():
            if name.endswith(".c"):
                for word in defined(text) - {"main"}:
                    owners.setdefault(word, set()).add(self.unit(name))
            else:
                meant |= macros(text)
        for name, text in self.plain.items():
            # A declaration uses nothing: of a header count its inline functions. A macro counts where it is used.
            used = text if name.endswith(".c") else outer_and_inner(text)[1]
            ways = re.findall(r"\w+", re.sub(r"\b(?:struct|enum|union)\s+\w+", "", used))  # tags are no names
            words = set()
            while ways:
                if (word := ways.pop()) not in words:
                    words.add(word)
                    ways += meant.get(word, ())
            for word in words & owners.keys():
                if self.unit(name) not in owners[word]:
                    for other in owners[word]:
                        self._add(self.unit(name), other, word)

    @functools.cached_property
    def reached(self):
        """unit -> all units that it uses, directly or by others."""
        reached = {}
        for unit in self.units:
            found, ways = set(), list(self.uses[unit])
            while ways:
                other = ways.pop()
                if other not in found:
                    found.add(other)
                    ways += self.uses[other]
            reached[unit] = found
        return reached

    def circle_of(self, unit):
        """All units that |unit| uses and that use it; empty: it is in no circle."""
        return {other for other in self.reached[unit] if unit in self.reached[other]}

    def circles(self):
        return sorted({tuple(sorted(self.circle_of(unit))) for unit in self.units} - {()}, key=lambda c: (len(c), c))

    def floors(self):
        """Units by floor, from the ground up; a circle stands on one floor."""
        @functools.cache
        def floor(unit):
            circle = self.circle_of(unit) | {unit}
            below = {other for member in circle for other in self.uses[member]} - circle
            return max((floor(other) + 1 for other in below), default=0)

        floors = {}
        for unit in self.units:
            floors.setdefault(floor(unit), []).append(unit)
        return [floors[number] for number in sorted(floors)]


# ---- the rules -----------------------------------------------------------------------------------------------------

def is_in(unit, places):
    """Whether |places|, units and folders, name |unit|."""
    return unit in places or unit.rpartition("/")[0] + "/" in places


def room_of(unit, rooms):
    """The room that names |unit| itself, else the one that has its folder."""
    for place in (unit, unit.rpartition("/")[0] + "/"):
        for room, (places, _) in rooms.items():
            if place in places.split():
                return room
    return None


def doors(words):
    """{room: the headers of it that may be used; None: all} from a string of ROOMS."""
    return {room: set(headers.split(",")) if headers else None
            for room, _, headers in (word.partition(":") for word in words.split())}


def strange_uses(house, rooms, more=()):
    """What uses a room that it may not use, as sentences."""
    found = []
    order = list(rooms)
    for unit in house.units:
        room = room_of(unit, rooms)
        if not room:
            continue
        may = doors(rooms[room][1] + " " + dict(more).get(unit, ""))
        for other, by in house.uses[unit].items():
            there = room_of(other, rooms)
            if there in (room, None):
                continue
            headers = {b for b in by if "/" in b}
            if there not in may:
                found.append(f"{unit} of {room} uses {other} of {there}: {' '.join(sorted(by))}")
            elif may[there] is not None and {h.rpartition("/")[2] for h in headers} - may[there]:
                found.append(f"{unit} of {room} uses more of {there} than it may: {' '.join(sorted(headers))}")
            elif order.index(there) > order.index(room) and other not in house.circle_of(unit):
                found.append(f"{unit} of {room} uses {other} of {there}, which stands above it")
    return found


def strange_circles(house, standing):
    """What differs between the circles of |house| and the table |standing|, as sentences."""
    listed = {unit: name for name, units in standing.items() for unit in units.split()}
    found = []
    for circle in house.circles():
        if len(joined := {listed[unit] for unit in circle if unit in listed}) > 1:
            found.append(f"the circles {' and '.join(sorted(joined))} have become one")
        if new := [unit for unit in circle if unit not in listed]:
            found.append(f"a circle of {' '.join(circle)}:")
            found += [f"    {unit} uses {other}: {' '.join(sorted(by))}" for unit in circle
                      for other, by in house.uses[unit].items() if other in circle and {unit, other} & set(new)]
    return found + [f"{unit} is in no circle any more: take it out of {name} in STANDING_CIRCLES"
                    for unit, name in listed.items() if unit not in house.units or not house.circle_of(unit)]


def strange_headers(house):
    """Which unit includes a header of another library that only others may, as sentences."""
    found = []
    for name in house.files:
        unit = house.unit(name)
        for header in house.included(name, "<"):
            is_hdf5 = re.match(r"(hdf5|H5\w*)\.h$", header)
            kind = "hdf5.h" if is_hdf5 else "curl/" if header.startswith("curl/") else header
            if kind in MAY_INCLUDE and not is_in(unit, MAY_INCLUDE[kind]) and not (is_hdf5 and is_in(unit, {"vfd/"})):
                found.append(f"{name} includes {header}")
            # A header may name a type of these.
            if header in IO_HEADERS and is_in(unit, PURE) and name.endswith(".c"):
                found.append(f"{name} is pure and includes {header}")
    return found


def owners(house, but):
    """{units: members} as WRITERS, of the members of an open file that it does not name: pointers to a struct that a
    header defines. Members that are no such pointers have no owner."""
    body = re.search(r"\nstruct xh_file \{(.*?)\n\}", house.plain["cache/object.h"], re.S)[1]
    found = {}
    for struct, member in re.findall(r"\bstruct (\w+) \*(\w+);", body):
        homes = [house.unit(name) for name, text in house.plain.items()
                 if name.startswith("cache/") and name.endswith(".h")
                 and re.search(r"^struct %s \{" % struct, text, re.M)]
        if member not in but and len(homes) == 1:
            found[homes[0]] = f"{found.get(homes[0], '')} {member}".strip()
    return found


def distant_writes(house, writers):
    """Which .c that uses struct xh_file changes what others alone may, as sentences."""
    found = []
    for units, members in writers.items():
        member = r"(?:\b[fg]|->f|->file)->(?:%s)\b(?:->\w+|\.\w+|\[[^]]*\])*" % "|".join(members.split())
        change = re.compile(r"%s\s*(?:[-+|&*]?=(?!=)|\+\+|--)|(?:\+\+|--)%s|"
                            r"\b(?:atomic_(?:store|fetch|exchange|compare)|pthread_mutex_)\w*\s*\(&%s"
                            % (member, member, member))
        for name, text in house.plain.items():
            unit = house.unit(name)
            if "cache/object" in house.uses[unit] and not is_in(unit, units.split()):
                found += [f"{name} changes {hit[0]}" for hit in change.finditer(text)]
    return found


def matching(house, pattern, but):
    """Names of the files whose text |pattern| matches, without those of the units |but|."""
    return [name for name, text in house.files.items() if re.search(pattern, text) and house.unit(name) not in but]


# ---- the test of the test ------------------------------------------------------------------------------------------

MADE_ROOMS = {"low": ("cache/low cache/lower cache/shared", ""), "high": ("cache/high cache/higher", "low")}
MADE = {
    "cache/shared.h": "void low_do(void); void high_do(int (*tell)(void)); struct high_do { int x; };",
    "cache/low.c": '#include "shared.h"\n/* high_do() */ void low_do(void)\n{\n    struct high_do x;\n'
                   '    log("high_do");\n}\n',
    "cache/lower.h": "static inline int lower(void) { return 1; }",
    "cache/high.c": '#include "shared.h"\n#include "lower.h"\nvoid high_do(int (*tell)(void))\n{\n    low_do();\n}\n',
}


def made(changes):
    """What the rules find in the files MADE with |changes| to them: circles, strange uses, units in no room."""
    with tempfile.TemporaryDirectory() as folder:
        top = pathlib.Path(folder).resolve()
        (top / "cache").mkdir()
        for name, text in {**MADE, **changes}.items():
            (top / name).write_text(text)
        house = House(top)
        return (["".join(sorted(unit[6:] + " " for unit in circle)).strip() for circle in house.circles()],
                strange_uses(house, MADE_ROOMS), [unit for unit in house.units if not room_of(unit, MADE_ROOMS)],
                strange_circles(house, {"two": "cache/low"}), [len(floor) for floor in house.floors()])


def check_the_finder(tap):
    calls_up = {"cache/low.c": '#include "shared.h"\nvoid low_do(void)\n{\n    high_do(0);\n}\n'}
    includes_up = {"cache/lower.h": '#include "high.h"\n', "cache/high.h": ""}
    uses_variable = {"cache/low.c": "int low_seen[4], low_x = 1;\nvoid low_do(void)\n{\n    high_last = 1;\n}\n",
                     "cache/high.c": "void high_do(void)\n{\n    low_do();\n}\nint high_last;\n"}
    by_inline = {"cache/lower.h": "static inline int lower(void)\n{\n    return high_do(0);\n}\n"}
    by_macro = {"cache/shared.h": "#define AGAIN(x) \\\n    high_do(x)\n",
                "cache/low.c": "void low_do(void)\n{\n    AGAIN(0);\n}\n"}
    for what, changes, expected in (
            ("nothing in words, strings, tags and declarations", {}, []),
            ("a call upwards, declared in a header that both share", calls_up, ["high low"]),
            ("an include upwards", includes_up, ["high lower"]),
            ("a variable that is used upwards", uses_variable, ["high low"]),
            ("a call upwards in a header's inline function", by_inline, ["high lower"]),
            ("a call upwards in a macro that is used", by_macro, ["high low"])):
        circles, strange, *_ = made(changes)
        tap.ok(circles == expected and len(strange) == len(expected), f"the finder finds {what}",
               f"{circles} {strange}")
    tap.ok(made({"cache/new.c": ""})[2] == ["cache/new"], "it finds a file that is in no room")
    gone, new = made({})[3], made(includes_up)[3]
    tap.ok(len(gone) == 1 and "is in no circle any more" in gone[0], "it finds an entry of no circle", str(gone))
    tap.ok(new[0] == "a circle of cache/high cache/lower:", "it finds a new circle", str(new))
    tap.ok(made({})[4] == [2, 1, 1], "it numbers the floors", str(made({})[4]))


def main():
    tap = harness.Tap()
    check_the_finder(tap)
    house = House(harness.TOP)

    homeless = [unit for unit in house.units if not room_of(unit, ROOMS)]
    tap.ok(not homeless, "every file is in a room", f"name their rooms in ROOMS: {homeless}")
    named = {place for places, _ in ROOMS.values() for place in places.split()}
    named |= PURE | MORE.keys() | set().union(*MAY_INCLUDE.values())
    named |= {unit for units in WRITERS for unit in units.split()} | READS_THE_ENVIRONMENT | WAITS_FOR_A_TIME | TELLS_WALL_TIME
    empty = [place for place in named if not any(is_in(unit, {place}) for unit in house.units)]
    tap.ok(not empty, "what the rooms and the rules name is there", f"nothing is at {empty}")
    tap.ok(not house.unknown, "every include names a file", "; ".join(house.unknown))

    strange = strange_uses(house, ROOMS, MORE)
    for room in ROOMS:
        of_room = [line for line in strange if f" of {room} uses " in line]
        tap.ok(not of_room, f"{room} uses only what it may", "\n".join(of_room))
    circles = strange_circles(house, STANDING_CIRCLES)
    tap.ok(not circles, "no circles but those that the table names", "\n".join(circles))

    rows = {word for words in WRITERS.values() for word in words.split()} | {"counters"}
    owned = owners(house, rows)
    distant = distant_writes(house, WRITERS) + distant_writes(house, owned)
    tap.ok(not distant, "members of an open file are changed where they belong", "\n".join(distant))
    members = re.findall(r"(\w+)(?=[,;])",
                         re.search(r"\nstruct xh_file \{(.*?)\n\}", house.plain["cache/object.h"], re.S)[1])
    listed = rows | {word for words in owned.values() for word in words.split()}
    tap.ok(set(members) == listed, "each member of an open file has its writers", str(set(members) ^ listed))

    headers = strange_headers(house)
    tap.ok(not headers, "headers of other libraries and of the system where they may be", "; ".join(headers))
    env = [name for name in matching(house, r"getenv", READS_THE_ENVIRONMENT)
           if re.search(r'XHDF5_[A-Z]*"', house.files[name])]
    tap.ok(not env, "XHDF5_* variables are read in options.c alone", str(env))
    printed = matching(house, r"dprintf\(|write\(STDERR_FILENO", PRINTS_ITS_OWN)
    tap.ok(not printed, "lines on standard error are xh_say's, which makes plain what servers and files say",
           str(printed))
    young = [name for name, text in house.plain.items() if re.search(r"\b(?:exp2?|log2?|pow)\(", text)]
    tap.ok(not young, "nothing of the C library that is newer than the wheel's oldest (2.28): log1p instead of log",
           str(young))
    by_locale = re.compile(r"\b(?:strn?casecmp|strcasestr|to(?:lower|upper)|"
                           r"is(?:alpha|alnum|space|blank|lower|upper|print|punct))\(")
    local = [name for name, text in house.plain.items() if by_locale.search(text)]
    tap.ok(not local, "nothing of the C library that goes by the program's locale: base/letters.h instead", str(local))
    timed = matching(house, r"pthread_cond_(timed|clock)wait|sem_timedwait|CLOCK_REALTIME",
                     WAITS_FOR_A_TIME | TELLS_WALL_TIME)
    tap.ok(not timed, "waits and intervals go by the monotonic clock alone", str(timed))

    for number, floor in enumerate(house.floors()):
        print(f"# floor {number}: {' '.join(floor)}")
    return tap.done()


if __name__ == "__main__":
    sys.exit(main())
