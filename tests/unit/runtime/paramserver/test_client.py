"""What a worker makes of servers that do not speak in step with each other."""

import contextlib
import socket

import pytest
import torch
from torch import nn

from ebbtide.runtime.paramserver.binding import Binding
from ebbtide.runtime.paramserver.channel import Channel
from ebbtide.runtime.paramserver.client import Client
from ebbtide.runtime.paramserver.messages import Fresh, Standing, Want
from support.served import layout_of


@pytest.mark.parametrize("quick", ["lead", "other"])
def test_a_server_that_is_two_words_ahead_of_another_holds_nobody_up(quick: str) -> None:
    model = nn.Linear(2, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    binding = Binding(model, optimizer, layout_of(model, optimizer))
    waits, done = Fresh(standing=Standing()), Fresh(standing=Standing(), is_done=True)
    with contextlib.ExitStack() as stack:
        near, far = {}, {}
        for name in ("lead", "other"):
            listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
            near[name] = Channel(socket.create_connection(listener.getsockname()))
            far[name] = Channel(listener.accept()[0])
            stack.callback(near[name].close)
            stack.callback(far[name].close)
        (slow,) = set(far) - {quick}
        late = [waits, done]

        def say_more() -> None:
            """All that was said has been read: let the slow one say a word more."""
            assert late, "it waits for what was said already"
            far[slow].send(late.pop(0))

        client = Client(
            binding.shared,
            binding.layout,
            token=b"",
            worker="w/0",
            servers=lambda: None,
            patience=say_more,
        )
        client._channels, client._lead, client._sharing = near, "lead", {"lead", "other"}
        far[quick].send(waits)
        far[quick].send(done)

        assert client.want().is_done
        assert far["lead"].read(Want, seconds=5.0) == Want()
