"""bank: transfers between accounts keep the total, and no balance is negative (`jepsen.tests.bank`).

`transfer {:from a, :to b, :amount n}` and `read`, answered by `{account balance …}`. Under snapshot isolation each read shows all
accounts at one moment, so the sum of its balances is the total at the beginning. Accounts and total are those of `--initial`, a
map of balances; if it is not given, those of the first read, and reads that agree among themselves show nothing wrong.
"""

from collections.abc import Hashable, Iterator

from checkers.jepsen.found import Finding, Found, Model, Note, Object, Unchecked, fields, reads, whole
from history.foreign.step import Call, short

Balances = dict[Hashable, Hashable]


def findings(bank: Object) -> Iterator[Finding]:
    """Find the reads of a bank that no sequence of transfers explains."""
    reads_of_bank = [(call, fields(call, call.result, "the answer to a read")) for call in reads(bank.calls)]
    if not reads_of_bank:
        return
    first, begun = reads_of_bank[0]
    if bank.initial is not None:
        begun = fields(first, bank.initial, "the initial balances")
    total = _total(first, begun)
    if bank.initial is None and len(reads_of_bank) == 1:
        yield Unchecked("one read and no --initial: there is no total to compare with")
    elif bank.initial is None:
        yield Note(f"the accounts and the total {total} are those of the first read, in line {first.line}")
    witness = () if bank.initial is not None else (first.line,)
    for call, balances in reads_of_bank:
        yield from _wrong_balances(call, balances, set(begun), total, witness)


def _wrong_balances(
    call: Call, balances: Balances, accounts: set[Hashable], total: int, witness: tuple[int, ...]
) -> Iterator[Found]:
    """What is wrong in one read: other accounts, nil or negative balances, another total."""
    account_difference = accounts ^ set(balances)
    nils = [account for account, balance in balances.items() if balance is None]
    if account_difference:
        words = f"line {call.line} reads other accounts: {short(frozenset(account_difference))} are in one of the two only"
        yield Found("unexpected-account", (*witness, call.line), words)
    if nils:
        yield Found("nil-balance", (call.line,), f"line {call.line} reads no balance of account {short(nils[0])}")
    negative = [(account, amount) for account, amount in balances.items() if isinstance(amount, int) and amount < 0]
    if negative:
        account, balance = negative[0]
        yield Found("negative-balance", (call.line,), f"line {call.line} reads {balance} in account {short(account)}")
    if not nils and not account_difference and _total(call, balances) != total:
        words = f"line {call.line} reads balances that add up to {_total(call, balances)}, not {total}"
        yield Found("wrong-total", (*witness, call.line), words)


def _total(call: Call, balances: Balances) -> int:
    return sum(whole(call, balance, "a balance") for balance in balances.values() if balance is not None)


MODEL = Model(
    name="bank",
    claim="each read shows all accounts, none negative, with the total of the beginning",
    kinds=("wrong-total", "negative-balance", "nil-balance", "unexpected-account"),
    blind="Stale reads, transfers that are lost or done twice; without `--initial`, a total that was always wrong.",
    functions=("transfer", "read"),
    findings=findings,
)
