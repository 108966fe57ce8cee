---------------------------- MODULE IsrRequests ----------------------------
\* highwater's model of ISR changes by requests, for TLC (highwater/explore/abstract/async_isr.py, docs/model.md).
EXTENDS Integers, FiniteSets

CONSTANTS Followers, Leader, MaxOffset, MaxVersion,
          HwOver,       \* "maximal", "current" or "proposed"
          VersionCheck

VARIABLES controller, isr, version, wanted, offset, asked, sent
\* `wanted`: all that the leader asked for at its version. `asked` and `sent`: pairs of a version and an ISR.
vars == <<controller, isr, version, wanted, offset, asked, sent>>
Everybody == Followers \cup {Leader}

Init ==
    /\ controller = [isr |-> Everybody, version |-> 0]
    /\ isr = Everybody
    /\ version = 0
    /\ wanted = {}
    /\ offset = [r \in Everybody |-> 0]
    /\ asked = {}
    /\ sent = {}

Counted ==
    CASE HwOver = "maximal" -> isr \cup wanted
      [] HwOver = "current" -> isr
      [] HwOver = "proposed" -> IF wanted = {} THEN isr ELSE wanted
Watermark == CHOOSE o \in {offset[r] : r \in Counted} : \A r \in Counted : o <= offset[r]

Set(members) ==
    /\ controller' = [isr |-> members, version |-> controller.version + 1]
    /\ sent' = sent \cup {<<controller.version + 1, members>>}
    /\ UNCHANGED <<isr, version, wanted, offset, asked>>
Shrink == \E f \in Followers \cap controller.isr : Set(controller.isr \ {f})
Obey == \E q \in asked : (VersionCheck => q[1] = controller.version) /\ Set(q[2])

Ask(members) ==
    /\ asked' = asked \cup {<<version, members>>}
    /\ wanted' = wanted \cup members
    /\ UNCHANGED <<controller, isr, version, offset, sent>>
AskLess == \E f \in isr \ {Leader} : Ask(isr \ {f})
AskMore == \E f \in Followers \ isr : offset[f] >= Watermark /\ Ask(isr \cup {f})
Hear == \E u \in sent :
    /\ u[1] > version
    /\ version' = u[1]
    /\ isr' = u[2]
    /\ wanted' = {}
    /\ UNCHANGED <<controller, offset, asked, sent>>

Write == offset' = [offset EXCEPT ![Leader] = @ + 1] /\ UNCHANGED <<controller, isr, version, wanted, asked, sent>>
Fetch == \E f \in Followers :
    /\ offset[f] < offset[Leader]
    /\ offset' = [offset EXCEPT ![f] = @ + 1]
    /\ UNCHANGED <<controller, isr, version, wanted, asked, sent>>

Next == Shrink \/ Obey \/ AskLess \/ AskMore \/ Hear \/ Write \/ Fetch

Within == controller.version <= MaxVersion /\ \A r \in Everybody : offset[r] <= MaxOffset
ValidHighWatermark == \A r \in controller.isr : offset[r] >= Watermark
=============================================================================
