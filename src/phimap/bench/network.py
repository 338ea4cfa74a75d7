"""A plain convolutional network, trained by torch, for comparison with the convolutional maps.

The network is not part of the library; only the experiments import this module.
"""

from __future__ import annotations

import numpy as np

from phimap.ops import torch_for

#: Number of channels of each layer, number of epochs, batch size, and initial step size.
CHANNELS, EPOCHS, BATCH, RATE = 64, 30, 64, 2e-3


def network_labels(
    X: np.ndarray,
    y: np.ndarray,
    X_test: np.ndarray,
    *,
    depth: int,
    filter_size: int,
    seed: int,
    channels: int = CHANNELS,
    epochs: int = EPOCHS,
) -> np.ndarray:
    """Predict labels (t,) of images (t, h, w, c) by a network trained on images (n, h, w, c).

    The network has `depth` convolutions with rectified units, the mean over all pixels and a linear output. The maps
    estimate the tangent kernel of this architecture. All layers are trained by Adam with cross-entropy; the step size
    falls to zero along half a cosine. Augmentation, normalisation and selection by held-out images are not used. A GPU
    is used if available; its results are not bitwise reproducible.

    Raises
    ------
    ImportError
        If torch is not installed.
    """
    torch = torch_for("the network of the method cnn")
    nn = torch.nn
    device = "cuda" if torch.cuda.is_available() else "cpu"
    classes, numbers = np.unique(y, return_inverse=True)
    images, targets = torch.from_numpy(np.moveaxis(X, -1, 1).copy()).to(device), torch.from_numpy(numbers).to(device)
    # torch has only a global generator. Its state is restored afterwards.
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        layers: list[object] = []
        for inputs in (images.shape[1], *[channels] * (depth - 1)):
            layers += [nn.Conv2d(inputs, channels, filter_size, padding=filter_size // 2), nn.ReLU()]
        layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, len(classes))]
        model = nn.Sequential(*layers).to(device)
        optimiser = torch.optim.Adam(model.parameters(), lr=RATE)
        steps = epochs * -(-len(images) // BATCH)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, steps)
        for _ in range(epochs):
            for rows in torch.randperm(len(images)).to(device).split(BATCH):
                optimiser.zero_grad()
                nn.functional.cross_entropy(model(images[rows]), targets[rows]).backward()
                optimiser.step()
                schedule.step()
    with torch.no_grad():
        parts = torch.from_numpy(np.moveaxis(X_test, -1, 1).copy()).split(1000)
        found = [model(part.to(device)).argmax(dim=1).cpu().numpy() for part in parts]
    return classes[np.concatenate(found)]
