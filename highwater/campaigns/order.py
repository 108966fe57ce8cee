"""What a campaign is asked for: seeds x protocols x fault mixes, each combination a trial. A trial gives a plan, and so a run."""

import hashlib
import re

import msgspec
from msgspec import Struct

from highwater.campaigns.campaign import Request
from highwater.campaigns.load import Load, load_of, name_parts
from highwater.errors import UsageError
from highwater.plans.plan import Plan
from highwater.plans.systems import OwnJars
from highwater.rig.backend import BackendName
from pipeline.items import Item

_NAME_MAX = 60  # characters of the protocols or of a mix within a name


class Trial(Struct, frozen=True, kw_only=True, array_like=True):
    """One seed under one protocol and one fault mix. There may be a million, so a trial is small; its plan is derived later."""

    seed: int
    protocol: str
    faults: tuple[str, ...]

    @property
    def key(self) -> str:
        """The key of the run in the ledger, for example `safe.default.17`."""
        return f"{self.protocol}.{mix_name(self.faults)}.{self.seed}"


class Order(Load, frozen=True, kw_only=True):
    """The options of `highwater campaign` that decide which runs there are and what is kept of them."""

    first: int
    last: int
    protocols: tuple[str, ...] = ("safe",)
    mixes: tuple[tuple[str, ...], ...] = ((),)  # an empty mix: the default kinds of the profile
    backend: BackendName = "sim"
    system: str = ""  # "kafka:3.9.1"; empty: the reference
    described: str = ""  # the file that describes the user's cluster, for the system "external"
    jars: OwnJars | None = None  # a build of the user's own, for the system "kafka"
    client: str = ""  # "java:4.1.0"; empty: librdkafka
    keep_all: bool = False
    branches: bool = False  # count branches of the protocol (highwater.coverage.branches)
    generation: int = 0  # plans in each generation of a guided campaign; 0: it is not guided
    together: int = 1  # seeds that share a cluster at a time, on another system

    @property
    def seeds(self) -> range:
        """All seeds."""
        return range(self.first, self.last + 1)

    @property
    def counts_branches(self) -> bool:
        """Whether each run says which branches of the protocol it took."""
        return self.branches or (self.generation > 0 and not self.reads_signs)

    @property
    def reads_signs(self) -> bool:
        """Whether each run says which signs of behaviour it showed: a guided campaign on a system whose branches nobody sees."""
        return self.generation > 0 and bool(self.system)

    @property
    def runs(self) -> int:
        """The number of trials."""
        return len(self.seeds) * len(self.protocols) * len(self.mixes)

    @property
    def title(self) -> str:
        """Protocols and seeds in words."""
        guided = f", guided in generations of {self.generation}" if self.generation else ""
        return f"{', '.join(self.protocols)}, seeds {self.first} to {self.last}{guided}"

    @property
    def name(self) -> str:
        """The name of the campaign and of its folder: two orders have the same name only if they ask for the same runs."""
        protocols = _short("_".join(self.protocols))
        name = f"{protocols}-{self.first}-{self.last}"
        others = (
            self.mixes,
            *name_parts(self),
            self.backend,
            *filter(None, [self.system, self.described, self.jars, self.client]),
        )
        plain = (((),), *name_parts(Load()), "sim")
        name = name if others == plain else f"{name}-{_digest(msgspec.json.encode(others))}"
        name += "-branches" if self.branches else ""
        name += f"-together-{self.together}" if self.together > 1 else ""
        return f"{name}-guided-{self.generation}" if self.generation else name

    def request(self, trial: Trial) -> Request:
        """The request that gives the plan of a trial."""
        return Request(
            protocol=trial.protocol,
            faults=trial.faults,
            **load_of(self),
            backend=self.backend,
            system=self.system,
            described=self.described,
            jars=self.jars,
            client=self.client,
        )

    def next_plans(self, plan: Plan) -> tuple[Plan, ...]:
        """The plans of the seeds that share a cluster with this one, if the campaign comes to it first."""
        last = self.first - 1 if plan.seed is None else min(plan.seed + self.together - 1, self.last)
        request = self.request(self.trial(0))
        return tuple(request.plan(seed) for seed in range((plan.seed or 0) + 1, last + 1))

    def trial(self, number: int) -> Trial:
        """The trial of a number from 0 to `runs` - 1: first those of the first seed, then of the second, ..."""
        of_seed, mix = divmod(number, len(self.mixes))
        seed, protocol = divmod(of_seed, len(self.protocols))
        return Trial(seed=self.first + seed, protocol=self.protocols[protocol], faults=self.mixes[mix])

    def named(self, key: str) -> Trial | None:
        """The trial with this key; None if there is none."""
        number = self.number(key)
        return None if number is None else self.trial(number)

    def repeat_of(self, key: str) -> str | None:
        """The command that repeats the trial with this key; None for the key of an edited plan."""
        trial = self.named(key)
        return None if trial is None else self.request(trial).command(trial.seed)

    def number(self, key: str) -> int | None:
        """The number of the trial with this key; None if there is none."""
        kind, _, seed = key.rpartition(".")
        kinds = [f"{protocol}.{mix_name(mix)}" for protocol in self.protocols for mix in self.mixes]
        if kind not in kinds or not seed.isdecimal() or int(seed) not in self.seeds:
            return None
        number = (int(seed) - self.first) * len(kinds) + kinds.index(kind)
        return number if self.trial(number).key == key else None

    def item(self, number: int) -> Item:
        """The trial of a number as an item of work."""
        trial = self.trial(number)
        return Item(trial.key, msgspec.json.encode(trial))

    def check(self) -> None:
        """Raise PlanError or UsageError if a run would be refused, or if there is none."""
        if not self.protocols:
            raise UsageError("--protocol must name at least one protocol variant")
        if self.generation and len(self.protocols) * len(self.mixes) > 1:
            raise UsageError("--guided searches for one --protocol with one value of --faults; give one of each")
        if self.counts_branches and self.backend != "sim":
            option = "--branches" if self.branches else "--guided"
            without = "" if self.branches else ", or another system (--system)"
            raise UsageError(
                f"{option} needs simulated runs{without}; --backend {self.backend} does not show which branches a broker takes"
            )
        if self.reads_signs and (self.backend != "process" or self.described):
            raise UsageError("--guided on another system needs clusters that it builds as processes (kafka:VERSION)")
        if self.together > 1 and (self.generation or self.settings != "alike" or not self.system or self.backend != "process"):
            raise UsageError("--together needs seeds (without --guided) on another system as processes, with --settings alike")
        if self.together > 1 and len(self.protocols) * len(self.mixes) > 1:
            raise UsageError("--together needs one --protocol and one value of --faults")
        for protocol in self.protocols:
            for mix in self.mixes:
                self.request(Trial(seed=0, protocol=protocol, faults=mix)).check(self.seeds)

    def command(self) -> str:
        """The command line that repeats the campaign."""
        base = self.request(Trial(seed=0, protocol=",".join(self.protocols), faults=self.mixes[0])).command(0)
        again = base.replace("run --seed 0", f"campaign --seeds {self.first}..{self.last}")
        again += "".join(f" --faults {','.join(mix) or repr('')}" for mix in self.mixes[1:])
        again += " --branches" if self.branches else ""
        again += f" --together {self.together}" if self.together > 1 else ""
        return again + (f" --guided --generation {self.generation}" if self.generation else "")


def mix_name(faults: tuple[str, ...]) -> str:
    """The name of a fault mix within keys and file names."""
    return _short("_".join(faults)) or "default"


def _short(name: str) -> str:
    """The name, or its digest where it is long, with a letter first as the dataset wants the names of campaigns."""
    is_fit = len(name) <= _NAME_MAX and re.fullmatch(r"[A-Za-z0-9._-]*", name)
    return name if is_fit else f"digest-{_digest(name.encode())}"


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:8]
