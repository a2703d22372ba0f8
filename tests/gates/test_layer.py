"""Gates on hidden layers: narrowed networks equal the gated ones exactly; uncertain modules are refused by name."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils.parametrizations import weight_norm

from narrows._util.errors import NarrowsError
from narrows.gates.layer import Gate, gate, gates_in
from narrows.gates.narrow import narrow

EXACT = {"rtol": 0.0, "atol": 1e-12}


def rows() -> nn.Module:
    return nn.Sequential(gate(nn.Linear(6, 9)), nn.ReLU(), gate(nn.Linear(9, 7)), nn.SiLU(), nn.Linear(7, 3))


def norms() -> nn.Module:
    """BatchNorm and a sigmoid before the gate, a nested block, an output layer."""
    block = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.PReLU(8), nn.Sigmoid())
    return nn.Sequential(gate(block), nn.Dropout(0.5), nn.Sequential(nn.Tanh(), nn.Linear(8, 3)))


def maps() -> nn.Module:
    """Convolutions, a transposed one between them, and a map that is flattened for the last layer."""
    return nn.Sequential(
        gate(nn.Sequential(nn.Conv2d(2, 5, 3, stride=2, padding=1), nn.BatchNorm2d(5), nn.LeakyReLU(0.1))),
        gate(nn.ConvTranspose2d(5, 6, 4, stride=2, padding=1)),
        nn.ReLU(),
        gate(nn.Conv2d(6, 4, 3, padding=1)),
        nn.AvgPool2d(2),
        nn.Flatten(),
        nn.Linear(4 * 4 * 4, 3),
    )


CASES = {"rows": (rows, (6,)), "norms": (norms, (6,)), "maps": (maps, (2, 8, 8))}


@pytest.fixture(params=CASES)
def case(request):
    torch.manual_seed(3)
    make, shape = CASES[request.param]
    network, x = make().double(), torch.randn(11, *shape, dtype=torch.float64)
    network(x)  # running averages of BatchNorm that are not 0 and 1
    for i, place in enumerate(gates_in(network)):
        place.gates.close(range(i, place.gates.n, 2))
    return network, x


@pytest.mark.parametrize("training", [False, True])
def test_narrowed_network_equals_gated_network(case, training):
    network, x = case
    for module in network.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
    smaller = narrow(network.train(training))
    assert smaller.training is training
    assert not gates_in(smaller)
    torch.testing.assert_close(smaller(x), network(x), **EXACT)
    assert sum(p.numel() for p in smaller.parameters()) < sum(p.numel() for p in network.parameters())


def test_narrowing_leaves_the_network_as_it_was(case):
    network, _ = case
    before = {name: tensor.clone() for name, tensor in network.state_dict().items()}
    smaller = narrow(network)
    with torch.no_grad():
        for parameter in smaller.parameters():
            parameter.fill_(7.0)
    for name, tensor in network.state_dict().items():
        torch.testing.assert_close(tensor, before[name], rtol=0, atol=0)


def test_all_closed_is_the_last_bias(case):
    network, x = case
    network.eval()
    gates_in(network)[-1].gates.close(range(gates_in(network)[-1].gates.n))
    smaller = narrow(network)
    torch.testing.assert_close(smaller(x), network(x), **EXACT)
    last = [m for m in smaller.modules() if isinstance(m, nn.Linear)][-1]
    torch.testing.assert_close(smaller(x), last.bias.expand(11, -1), **EXACT)


def test_the_smaller_layers_have_the_sizes_they_say():
    network = nn.Sequential(gate(nn.Linear(6, 9)), nn.ReLU(), nn.Linear(9, 3))
    gates_in(network)[0].gates.close([0, 4])
    smaller = narrow(network)
    assert str(smaller) == str(nn.Sequential(nn.Sequential(nn.Linear(6, 7)), nn.ReLU(), nn.Linear(7, 3)))


def test_gates_on_the_last_axis_of_tokens():
    network = nn.Sequential(gate(nn.Linear(4, 6), dim=-1), nn.GELU(), nn.Linear(6, 2)).double()
    gates_in(network)[0].gates.close([1, 2])
    x = torch.randn(3, 5, 4, dtype=torch.float64)
    torch.testing.assert_close(narrow(network)(x), network(x), **EXACT)


def test_networks_that_are_not_sequences_around_a_sequence_that_is():
    class Residual(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = nn.Sequential(gate(nn.Conv2d(3, 8, 3, padding=1)), nn.ReLU(), nn.Conv2d(8, 3, 1))

        def forward(self, x):
            return x + self.body(x)

    network = nn.Sequential(Residual(), Residual()).double()
    for place in gates_in(network):
        place.gates.close([0, 3, 5])
    x = torch.randn(2, 3, 6, 6, dtype=torch.float64)
    torch.testing.assert_close(narrow(network)(x), network(x), **EXACT)


def test_a_layer_without_weights_may_be_used_in_many_places():
    act = nn.Tanh()
    network = nn.Sequential(gate(nn.Sequential(nn.Linear(4, 9), act, nn.Linear(9, 9), act)), act, nn.Linear(9, 3))
    network = network.double()
    gates_in(network)[0].gates.close([0, 1, 2, 5])
    x = torch.randn(7, 4, dtype=torch.float64)
    torch.testing.assert_close(narrow(network)(x), network(x), **EXACT)


def test_gates_must_stand_on_the_axis_that_the_layer_makes():
    """Of tokens, (batch, places, units), the last; where they were put on the places, nothing can be cut."""
    x = torch.randn(5, 8, 4, dtype=torch.float64)
    for dim, exact in ((None, True), (-1, True), (2, True), (1, False)):
        network = nn.Sequential(gate(nn.Linear(4, 8), dim), nn.ReLU(), nn.Linear(8, 3)).double()
        narrow(network)  # it has not run yet
        gates_in(network)[0].gates.close([1, 2])
        expected = network(x)
        if exact:
            torch.testing.assert_close(narrow(network)(x), expected, **EXACT)
        else:
            with pytest.raises(NarrowsError, match="gates stand on axis 1 of a tensor with 3 axes, and the Linear"):
                narrow(network)
    network = nn.Sequential(gate(nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8))), nn.Linear(8, 3)).double()
    network(x)  # eight places as well as eight units: BatchNorm1d works on the places
    with pytest.raises(NarrowsError, match="works on axis 1 of a tensor with 3 axes"):
        narrow(network)


class Louder(nn.ReLU):
    def forward(self, x):
        return super().forward(x) + 1


class Halved(nn.Linear):
    def forward(self, x):
        return F.linear(x, self.weight / 2, self.bias)


class Residue(nn.Sequential):
    def forward(self, x):
        return x + super().forward(x)


def hooked(module: nn.Module) -> nn.Module:
    module.register_forward_pre_hook(lambda module, arguments: (arguments[0] + 1,))
    return module


def twice(layer: nn.Module) -> nn.Module:
    return nn.Sequential(layer, nn.ReLU(), gate(layer), nn.ReLU(), nn.Linear(6, 3))


def twice_closed_over(act: nn.Module) -> nn.Module:
    return nn.Sequential(nn.Linear(4, 9), act, Gate(9), act, nn.Linear(9, 3))


class Stranger(nn.Module):
    def forward(self, x):
        return x


@pytest.mark.parametrize(
    ("network", "text"),
    [
        (nn.Sequential(gate(nn.Linear(4, 6)), nn.BatchNorm1d(6), nn.Linear(6, 2)), "BatchNorm1d stands behind a gate"),
        (nn.Sequential(gate(nn.Linear(4, 6)), nn.Sigmoid(), nn.Linear(6, 2)), "put the gate behind it"),
        (
            nn.Sequential(gate(nn.Sequential(nn.Linear(4, 6), nn.LayerNorm(6))), nn.Linear(6, 2)),
            "LayerNorm stands before",
        ),
        (nn.Sequential(gate(nn.Linear(4, 6)), Stranger(), nn.Linear(6, 2)), "Stranger stands behind"),
        (gate(nn.Linear(4, 6)), "needs a Linear, Conv2d or ConvTranspose2d behind it"),
        (nn.Sequential(Gate(4), nn.Linear(4, 2)), "needs a Linear, Conv2d or ConvTranspose2d before it"),
        (nn.Sequential(gate(nn.Conv2d(1, 4, 3)), nn.Linear(4, 2)), "4 gates stand between a Conv2d with 4 outputs"),
        (nn.Sequential(gate(nn.Conv2d(1, 4, 3)), nn.Flatten(2), nn.Linear(16, 2)), "would mix its units"),
        (nn.Sequential(gate(nn.Conv2d(2, 4, 3)), nn.Flatten(1, 2), nn.Linear(8, 3)), "would mix its units"),
        (nn.Sequential(gate(nn.Linear(4, 8)), nn.AvgPool1d(3, 1, 1), nn.Linear(8, 3)), "AvgPool1d stands behind"),
        (nn.Sequential(gate(nn.Linear(4, 8)), nn.AvgPool2d(3, 1, 1), nn.Linear(8, 3)), "would mix its units"),
        (
            nn.Sequential(gate(nn.Conv2d(2, 4, 3)), nn.Flatten(), nn.PReLU(16), nn.Linear(16, 3)),
            "must have one weight per gate",
        ),
        (
            nn.Sequential(gate(nn.Conv2d(2, 6, 3), dim=2), nn.Conv2d(6, 3, 3)),
            "gates stand on axis 2 of a tensor",
        ),
        (nn.Sequential(gate(nn.Linear(4, 6)), Louder(), nn.Linear(6, 3)), "Louder stands behind"),
        (nn.Sequential(gate(nn.Linear(4, 6)), Halved(6, 3)), "Halved stands behind"),
        (nn.Sequential(gate(weight_norm(nn.Linear(4, 6))), nn.Linear(6, 3)), "ParametrizedLinear stands before"),
        (nn.Sequential(gate(nn.Linear(4, 6)), hooked(nn.Linear(6, 3))), "Linear stands behind a gate and has hooks"),
        (nn.Sequential(gate(nn.Linear(4, 6)), hooked(nn.Sequential(nn.Linear(6, 3)))), "Sequential stands behind"),
        (nn.Sequential(gate(nn.Linear(4, 6)), Residue(nn.Linear(6, 6)), nn.Linear(6, 3)), "Residue stands behind"),
        (Residue(gate(nn.Linear(6, 6))), "needs a Linear, Conv2d or ConvTranspose2d behind"),
        (nn.Sequential(*[gate(nn.Linear(6, 6))] * 2, nn.Linear(6, 3)), "Gate next to a gate is used in more than one"),
        (twice(nn.Linear(6, 6)), "Linear next to a gate is used in more than one place"),
        (twice_closed_over(nn.Sigmoid()), "Sigmoid stands behind"),
        (nn.Sequential(gate(nn.Linear(4, 6)), nn.Flatten(), nn.Linear(12, 2)), "the outputs must be the inputs"),
        (nn.Sequential(gate(nn.Conv2d(2, 4, 3)), nn.Conv2d(4, 4, 3, groups=2)), "groups=2"),
        (nn.Sequential(gate(gate(nn.Linear(4, 6))), nn.Linear(6, 2)), "two gates stand between"),
        (nn.ModuleList([gate(nn.Linear(4, 6))[1]]), "not in an nn.Sequential"),
        (Gate(3), "a gate alone"),
    ],
)
def test_uncertain_modules_are_refused(network, text):
    with pytest.raises(NarrowsError, match=text):
        narrow(network)


def test_modules_that_cannot_be_gated():
    with pytest.raises(NarrowsError, match="ReLU has no Linear, Conv2d or ConvTranspose2d"):
        gate(nn.ReLU())
    with pytest.raises(NarrowsError, match=r"6 gates stand on axis 1 of a tensor of shape \(2, 5, 6\)"):
        gate(nn.Linear(4, 6), dim=1)(torch.randn(2, 5, 4))
    with pytest.raises(NarrowsError, match=r"takes a torch\.nn\.Module; it was given 5"):
        gate(5)
    with pytest.raises(NarrowsError, match=r"takes a torch\.nn\.Module; it was given 5"):
        narrow(5)
    with pytest.raises(NarrowsError, match="dim must be an axis behind the batch"):
        gate(nn.Linear(4, 6), dim=0)
    with pytest.raises(NarrowsError, match="6 gates stand on axis 7 of a tensor of"):
        gate(nn.Linear(4, 6), dim=7)(torch.zeros(2, 4))
