"""The fast step is the plain one: 200 batches of training in float64, side by side, with the same noise.

The plain implementation shares no code with ours: default memory format, upsampling followed by a convolution, two full
decoder passes, batch statistics by hand (those of the first pass serve both, decision D10), Adam in its simplest form.
"""

import torch
import torch.nn.functional as F

from narrows.constraint import Geco
from narrows.model.vae import gated_vae
from narrows.networks import NetworkConfig
from narrows.recipes.base import Noise
from narrows.recipes.optimiser import make_optimiser
from narrows.recipes.paper import Narrowing, draw_noise

BATCH, N, STEPS, TAU = 16, 6, 200, 60.0
K, LEAK, DECAY = 7.0, 0.02, 0.99


def normalised(x, weight, bias, statistics):
    mean, variance = statistics
    x = (x - mean.view(1, -1, 1, 1)) / (variance.view(1, -1, 1, 1) + 1e-5).sqrt()
    return weight.view(1, -1, 1, 1) * x + bias.view(1, -1, 1, 1)


def statistics_of(x):
    return x.mean((0, 2, 3)), x.var((0, 2, 3), correction=0)


class Plain:
    """Algorithm 1 on copies of our initial weights."""

    def __init__(self, narrowing, learning_rate):
        self.p = {name: p.detach().clone().contiguous().requires_grad_() for name, p in narrowing.named_parameters()}
        self.stages = sum(name.startswith("model.encoder.convs") for name in self.p) // 2
        raw = self.p["constraint.raw"]
        others = [p for p in self.p.values() if p is not raw]
        self.descent = torch.optim.Adam(others, lr=learning_rate, foreach=False, fused=False)
        self.ascent = torch.optim.Adam([raw], lr=learning_rate, foreach=False, fused=False, maximize=True)
        self.low, self.high = narrowing.constraint.lowest, narrowing.constraint.highest
        self.average = None

    def encode(self, x):
        p = self.p
        for i in range(self.stages):
            name = f"model.encoder.convs.{i}"
            x = F.leaky_relu(F.conv2d(x, p[f"{name}.weight"], p[f"{name}.bias"], stride=2, padding=1), LEAK)
            name = f"model.encoder.norms.{i}"
            x = normalised(x, p[f"{name}.weight"], p[f"{name}.bias"], statistics_of(x))
        x = x.permute(0, 2, 3, 1).reshape(len(x), -1)
        x = F.leaky_relu(F.linear(x, p["model.encoder.hidden.weight"], p["model.encoder.hidden.bias"]), LEAK)
        mean, raw = F.linear(x, p["model.encoder.head.weight"], p["model.encoder.head.bias"]).chunk(2, dim=1)
        return mean, 8 * torch.tanh(raw / 8)

    def decode(self, z, statistics=None):
        """Return the images and the statistics that were used."""
        p, used = self.p, []
        x = F.leaky_relu(F.linear(z, p["model.decoder.stem.weight"], p["model.decoder.stem.bias"]), LEAK)
        x = F.leaky_relu(F.linear(x, p["model.decoder.expand.weight"], p["model.decoder.expand.bias"]), LEAK)
        x = x.view(len(x), 4, 4, -1).permute(0, 3, 1, 2).contiguous()
        for i in range(self.stages):
            used.append(statistics_of(x) if statistics is None else statistics[i])
            name = f"model.decoder.norms.{i}"
            x = normalised(x, p[f"{name}.weight"], p[f"{name}.bias"], used[-1])
            weight, bias = p[f"model.decoder.convs.{i}.weight"], p[f"model.decoder.convs.{i}.bias"]
            x = F.conv2d(F.interpolate(x, scale_factor=2), weight, bias, padding=1 if weight.shape[-1] == 3 else 0)
            x = F.leaky_relu(x, LEAK) if i + 1 < self.stages else torch.sigmoid(x)
        return x, used

    def step(self, x, noise, hit):
        """One batch; return the loss and the gates' gradient."""
        gamma, raw = self.p["model.gates.logits"], self.p["constraint.raw"]
        first = (noise.u > torch.sigmoid(-K * gamma)).double() if hit else torch.ones_like(noise.u)
        second = (noise.u < torch.sigmoid(K * gamma)).double() if hit else torch.ones_like(noise.u)
        mean, log_std = self.encode(x)
        z = mean + torch.exp(log_std) * noise.eps
        images, statistics = self.decode(z * second)
        error = ((images - x) ** 2).sum((1, 2, 3))
        violation = error - TAU
        now = violation.detach().mean()
        self.average = now if self.average is None else DECAY * self.average + (1 - DECAY) * now
        multiplier = F.softplus(raw) ** 2
        constraint = violation.mean() + (self.average - violation.mean()).detach()
        kl = -0.5 * (1 + 2 * log_std - torch.exp(2 * log_std) - mean**2)
        kl = ((kl * second).sum(1) / second.sum(1).clamp(min=1)).mean()
        hits = (violation.detach() <= 0).double().mean()
        hit_now = hit or bool(now <= 0)
        loss = (multiplier * constraint).sum() + kl + hits * hit_now * torch.sigmoid(K * gamma).sum()
        self.descent.zero_grad()
        self.ascent.zero_grad()
        loss.backward()
        if hit:
            with torch.no_grad():
                other = ((self.decode(z * first, [tuple(s) for s in statistics])[0] - x) ** 2).sum((1, 2, 3))
                difference = multiplier * (other - error)
                gamma.grad += K * (difference[:, None] * (noise.u - 0.5)).mean(0)
        gradient = gamma.grad.clone()
        self.descent.step()
        self.ascent.step()
        with torch.no_grad():
            raw.clamp_(self.low, self.high)
        return loss.item(), gradient, hit_now


def squares(count, generator):
    """Images with a bright square somewhere: something to learn, so that tau is met on the way."""
    x = torch.zeros(count, 1, 28, 28, dtype=torch.float64)
    for image, (row, column, size) in zip(
        x, torch.randint(2, 14, (count, 3), generator=generator).tolist(), strict=True
    ):
        image[0, row : row + size, column : column + size] = 1
    return x


def test_200_batches_agree():
    torch.manual_seed(0)
    model = gated_vae(NetworkConfig("conv", (1, 28, 28), N, width=8))
    with torch.no_grad():
        model.gates.logits.copy_(torch.linspace(-0.3, 0.5, N))
    narrowing = Narrowing(model, Geco(TAU)).double()
    plain = Plain(narrowing, 1e-3)
    optimiser = make_optimiser(narrowing, 1e-3)
    generator = torch.Generator().manual_seed(1)
    losses, gradients, hit, both = [], [], False, 0
    for _ in range(STEPS):
        x = squares(BATCH, generator)
        noise = Noise(*(t.double() for t in draw_noise(BATCH, N, generator)))
        before = hit
        loss, gradient, hit = plain.step(x, noise, before)
        ours, record = narrowing(x.contiguous(memory_format=torch.channels_last), noise)
        ours.backward()
        losses.append(abs(record.loss.item() - loss) / abs(loss))
        logits = narrowing.model.gates.logits.grad
        gradients.append(((logits - gradient).abs() / gradient.abs().clamp(min=1)).max().item())
        optimiser.step()
        optimiser.zero_grad()
        narrowing.constraint.project()
        both += before
    assert both > STEPS // 4, "most batches should be trained with gates"
    assert both < STEPS, "and some before the first hit"
    assert max(losses) < 1e-9
    assert max(gradients) < 1e-9
