---------------------------- MODULE Replication ----------------------------
\* highwater's model of Kafka's replication for TLC (highwater/explore/abstract/kafka_replication.py, docs/model.md).
\* One text for all variants: the constants from Truncation on are the fields of `Rules` in rules.py.
EXTENDS Integers, Sequences

CONSTANTS Replicas, Nobody, LogSize, MaxRecords, MaxEpoch,
          Truncation,       \* "to-hw", "kip101", "kip279" or "when-fetching"
          TruncationFenced,
          Fetch, Hw, Shrinking, Expansion,  \* "leader", "record-epoch" or "leader-epoch"
          ExpansionInEpoch

VARIABLES log, local, requests, zookeeper, written
vars == <<log, local, requests, zookeeper, written>>

Smaller(a, b) == IF a < b THEN a ELSE b
Presumes(r) == local[r].leader = r
Leads(r) == Presumes(r) /\ zookeeper.leader = r /\ zookeeper.epoch = local[r].epoch
Follows(l, f, mode) ==
    local[f].leader = l /\ (IF mode = "leader-epoch" THEN local[f].epoch = local[l].epoch ELSE TRUE)
Acknowledged(l, f, end, mode) ==
    /\ Follows(l, f, mode)
    /\ Len(log[f]) >= end
    /\ IF mode = "record-epoch" /\ end > 0 THEN log[f][end].epoch = log[l][end].epoch ELSE TRUE

Init ==
    /\ log = [r \in Replicas |-> <<>>]
    /\ local = [r \in Replicas |-> [hw |-> 0, epoch |-> -1, leader |-> Nobody, isr |-> {}]]
    /\ requests = {}
    /\ zookeeper = [epoch |-> -1, leader |-> Nobody, isr |-> Replicas]
    /\ written = 0

\* ---- controller

Send(leader, isr) ==
    /\ zookeeper.epoch < MaxEpoch
    /\ zookeeper' = [epoch |-> zookeeper.epoch + 1, leader |-> leader, isr |-> isr]
    /\ requests' = requests \cup {zookeeper'}
    /\ UNCHANGED <<log, local, written>>

Elect == \E r \in zookeeper.isr : zookeeper.leader /= r /\ Send(r, zookeeper.isr)

Remove == \E r \in Replicas :
    IF zookeeper.leader = r
    THEN Send(Nobody, IF zookeeper.isr = {r} THEN {r} ELSE zookeeper.isr \ {r})
    ELSE r \in zookeeper.isr /\ Send(zookeeper.leader, zookeeper.isr \ {r})

\* ---- LeaderAndIsr requests

Obeying(q, hw) == [hw |-> hw, epoch |-> q.epoch, leader |-> q.leader, isr |-> q.isr]

BecomeLeader == \E q \in requests :
    /\ q.leader /= Nobody
    /\ q.epoch > local[q.leader].epoch
    /\ local' = [local EXCEPT ![q.leader] = Obeying(q, @.hw)]
    /\ UNCHANGED <<log, requests, zookeeper, written>>

Highest(offsets) == CHOOSE o \in offsets : \A p \in offsets : p <= o
Lowest(offsets) == CHOOSE o \in offsets : \A p \in offsets : o <= p
EndOfMatch(l, f) ==
    Highest({0} \cup {o \in 1 .. Smaller(Len(log[l]), Len(log[f])) : log[l][o] = log[f][o]})
EndOfEpoch(l, f) ==
    LET last == log[f][Len(log[f])].epoch
        later == {o \in 1 .. Len(log[l]) : log[l][o].epoch > last}
    IN  CASE log[f] = <<>> -> 0
          [] log[f] /= <<>> /\ log[l] = <<>> -> local[f].hw
          [] log[f] /= <<>> /\ log[l] /= <<>> ->
                IF log[l][Len(log[l])].epoch = last THEN Len(log[l])
                ELSE IF later = {} THEN local[f].hw ELSE Lowest(later) - 1
TruncationOf(l, f) ==
    CASE Truncation = "to-hw" -> local[f].hw
      [] Truncation = "kip101" -> EndOfEpoch(l, f)
      [] Truncation = "kip279" -> EndOfMatch(l, f)
      [] Truncation = "when-fetching" -> Len(log[f])

Follow(q, f) ==
    LET to == TruncationOf(q.leader, f)
    IN  /\ q.leader \notin {Nobody, f}
        /\ q.epoch > local[f].epoch
        /\ IF TruncationFenced THEN local[q.leader].epoch = q.epoch ELSE TRUE
        /\ to <= Len(log[f])
        /\ log' = [log EXCEPT ![f] = SubSeq(@, 1, to)]
        /\ local' = [local EXCEPT ![f] = Obeying(q, Smaller(to, @.hw))]
        /\ UNCHANGED <<requests, zookeeper, written>>

\* The second line is the published overlap: without the fence, an empty log follows in two ways.
BecomeFollower == \E q \in requests, f \in Replicas :
    \/ Follow(q, f)
    \/ Truncation = "kip279" /\ ~TruncationFenced /\ log[f] = <<>> /\ Follow(q, f)

\* ---- leaders

Write == \E l \in Replicas :
    /\ Presumes(l)
    /\ written < MaxRecords
    /\ Len(log[l]) < LogSize
    /\ log' = [log EXCEPT ![l] = Append(@, [id |-> written, epoch |-> local[l].epoch])]
    /\ written' = written + 1
    /\ UNCHANGED <<local, requests, zookeeper>>

RaiseHw == \E l \in Replicas :
    /\ Presumes(l)
    /\ Len(log[l]) > local[l].hw
    /\ \A f \in local[l].isr : Acknowledged(l, f, local[l].hw + 1, Hw)
    /\ local' = [local EXCEPT ![l].hw = @ + 1]
    /\ UNCHANGED <<log, requests, zookeeper, written>>

WriteIsr(l, isr) ==
    /\ zookeeper' = [zookeeper EXCEPT !.isr = isr]
    /\ local' = [local EXCEPT ![l].isr = isr]
    /\ UNCHANGED <<log, requests, written>>

\* With "leader-epoch" the two reasons overlap, and TLC counts both.
Lags(l, f) ==
    IF Shrinking = "leader-epoch"
    THEN ~Follows(l, f, Shrinking) \/ Len(log[f]) < Len(log[l])
    ELSE ~Acknowledged(l, f, Len(log[l]), Shrinking)

Shrink == \E l \in Replicas : Leads(l) /\ \E f \in local[l].isr \ {l} : Lags(l, f) /\ WriteIsr(l, local[l].isr \ {f})

HwInOwnEpoch(l) ==
    IF local[l].hw = Len(log[l]) THEN TRUE ELSE log[l][local[l].hw + 1].epoch = local[l].epoch

Expand == \E l \in Replicas : Leads(l) /\ \E f \in Replicas \ local[l].isr :
    /\ Acknowledged(l, f, local[l].hw, Expansion)
    /\ IF ExpansionInEpoch THEN HwInOwnEpoch(l) ELSE TRUE
    /\ WriteIsr(l, local[l].isr \cup {f})

\* ---- followers

FetchRecord == \E l, f \in Replicas :
    /\ Presumes(l)
    /\ Len(log[f]) < Len(log[l])
    /\ Acknowledged(l, f, Len(log[f]), Fetch)
    /\ log' = [log EXCEPT ![f] = Append(@, log[l][Len(@) + 1])]
    /\ local' = [local EXCEPT ![f].hw = Smaller(local[l].hw, Len(log[f]) + 1)]
    /\ UNCHANGED <<requests, zookeeper, written>>

Diverges(l, f) ==
    IF Len(log[f]) > Len(log[l]) THEN TRUE
    ELSE IF log[f] = <<>> THEN FALSE
    ELSE log[l][Len(log[f])].epoch /= log[f][Len(log[f])].epoch

TruncateLate == \E l, f \in Replicas :
    /\ Truncation = "when-fetching"
    /\ Presumes(l)
    /\ local[f].leader = l
    /\ Diverges(l, f)
    /\ LET to == EndOfMatch(l, f)
       IN  /\ log' = [log EXCEPT ![f] = SubSeq(@, 1, to)]
           /\ local' = [local EXCEPT ![f].hw = Smaller(to, @)]
    /\ UNCHANGED <<requests, zookeeper, written>>

Next ==
    \/ Elect \/ Remove \/ BecomeLeader \/ BecomeFollower \/ Write \/ RaiseHw
    \/ Shrink \/ Expand \/ FetchRecord \/ TruncateLate

\* ---- invariants

Hold(l, members) == \A f \in members, o \in 1 .. local[l].hw : Len(log[f]) >= o /\ log[f][o] = log[l][o]
WeakIsr == \A l \in Replicas : Presumes(l) => Hold(l, local[l].isr)
StrongIsr == \A l \in Replicas : Presumes(l) => Hold(l, zookeeper.isr)
=============================================================================
