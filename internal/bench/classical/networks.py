"""Exports networks with random weights as ONNX: FOLDER NAME[@SIZE][+dynamo]…

NAME is an architecture of timm, SIZE the side of its images, or transformers:TYPE, a type of model of transformers, of two
layers and SIZE tokens. PyTorch's exporter by tracing writes FOLDER/NAME/model.onnx, with +dynamo the newer one, and x_1.npy
or, of several inputs, x_1_INPUT.npy beside it.
"""

import inspect
import os
import sys
import warnings

import numpy
import onnx
import torch


def vary(model, inputs):
    """Has parameters that are all equal differ, as training would, and batch normalisations hold statistics of inputs."""
    draw = torch.Generator().manual_seed(1)
    norms = [m for m in model.modules() if isinstance(m, torch.nn.modules.batchnorm._BatchNorm) and m.track_running_stats]
    with torch.no_grad():
        for p in model.parameters():
            if p.numel() > 1 and float(p.float().std()) == 0:
                p.add_(torch.randn(p.shape, generator=draw) * 0.1)
        for m in norms:
            m.train()
            m.momentum = 1.0
        model(*(torch.cat([x, x.flip(-1)]) for x in inputs))  # a variance is one of two at least
        model.eval()
        for m in norms:
            m.running_var.clamp_(min=1e-3)


class Tokens(torch.nn.Module):
    """A model of transformers, of token ids alone, of which the first result is kept."""

    def __init__(self, model, names):
        super().__init__()
        self.model, self.names = model, names

    def forward(self, *ids):
        return self.model(**dict(zip(self.names, ids)), return_dict=False)[0]


def text(kind, size):
    from transformers import AutoConfig, AutoModel

    layers = {n: 2 for n in ("num_hidden_layers", "n_layer", "num_layers", "n_layers", "encoder_layers", "decoder_layers")}
    config = AutoConfig.for_model(kind)
    for name, n in layers.items():
        if hasattr(config, name):
            setattr(config, name, n)
    config.use_cache = False
    model = AutoModel.from_config(config).eval()
    ids = torch.randint(4, min(1000, config.vocab_size), (1, size), generator=torch.Generator().manual_seed(2))
    accepted = inspect.signature(model.forward).parameters
    names = ["input_ids"] + (["decoder_input_ids"] if "decoder_input_ids" in accepted else [])
    return Tokens(model, names).eval(), names, [ids] * len(names)


def image(name, size):
    import timm

    model = timm.create_model(name, pretrained=False, exportable=True).eval()
    size = size or model.pretrained_cfg["input_size"][1]
    return model, ["x"], [torch.randn(1, 3, size, size, generator=torch.Generator().manual_seed(2))]


def export(folder, spec):
    name, dynamo, _ = spec.partition("+dynamo")
    name, _, size = name.partition("@")
    torch.manual_seed(0)
    kind = name.removeprefix("transformers:")
    model, names, inputs = text(kind, int(size or 64)) if kind != name else image(name, int(size or 0))
    vary(model, inputs)
    to = os.path.join(folder, kind + ("-dynamo" if dynamo else ""))
    os.makedirs(to, exist_ok=True)
    path = os.path.join(to, "model.onnx")
    options = dict(dynamo=True, opset_version=18, external_data=False, verbose=False) if dynamo else dict(dynamo=False, opset_version=17)
    with torch.no_grad():
        torch.onnx.export(model, tuple(inputs), path, input_names=names, **options)
    left = [i.name for i in onnx.load(path).graph.input]
    for n, x in zip(names, inputs):
        if n in left:
            numpy.save(os.path.join(to, "x_1.npy" if len(left) == 1 else f"x_1_{n}.npy"), x.numpy())


warnings.filterwarnings("ignore")
torch.set_num_threads(1)
failed = []
for network in sys.argv[2:]:
    try:
        export(sys.argv[1], network)
    except Exception as e:  # of a network that its exporter does not take
        failed.append(network)
        print(f"{network}: {type(e).__name__}: {str(e)[:300]}")
sys.exit(1 if len(failed) == len(sys.argv[2:]) else 0)
