"""Ten thousand malformed conversations: none of them hurts anybody but the one who holds it."""

import random

from ebbtide.wire.frames import Decoder, FrameError
from ebbtide.wire.messages import Call, Canary, FromWorker
from support import fuzzing

SOCKETS = 4_000
DECODED = 6_000
MOST_GROWTH = 32 << 20


async def test_no_input_crashes_it_closes_anothers_connection_or_stays_in_memory() -> None:
    outcome = await fuzzing.play(SOCKETS, seed=1)

    assert outcome.inputs == SOCKETS
    assert outcome.faults == []
    assert outcome.hung == 0
    assert not outcome.witness_lost
    assert outcome.answers
    assert outcome.grown_bytes < MOST_GROWTH


def test_a_stream_is_cut_into_messages_or_refused_and_nothing_else() -> None:
    chance = random.Random(2)
    understood = refused = 0

    for _ in range(DECODED):
        decoder = Decoder(FromWorker | Canary | Call)
        stream = fuzzing.draw(chance).stream
        cut = chance.randint(0, len(stream))
        try:
            for part in (stream[:cut], stream[cut:]):
                understood += len(list(decoder.feed(part)))
        except FrameError:
            refused += 1

    assert understood > DECODED / 10, "nearly all inputs were garbage: nothing deep was reached"
    assert refused > DECODED / 10
