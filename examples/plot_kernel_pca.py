"""
Kernel PCA and clustering through features
==========================================

Whatever scikit-learn does with linear features, it does with a kernel once the data have passed through a feature map:
principal components of the features are kernel principal components, and k-means on them is kernel k-means.
"""

import matplotlib.pyplot as plt
from sklearn.cluster import KMeans
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.metrics import adjusted_rand_score
from sklearn.pipeline import make_pipeline

import phimap as pm

X, y = load_digits(return_X_y=True)
X = X / 16

# %%
# The neural tangent kernel of a network with three hidden layers, by 2,048 features, down to 10 components.

components = make_pipeline(
    pm.NTKFeatures(depth=3, n_components=2048, random_state=0), PCA(10, random_state=0)
).fit_transform(X)
clusters = KMeans(10, n_init=10, random_state=0).fit_predict(components)
plain = KMeans(10, n_init=10, random_state=0).fit_predict(PCA(10, random_state=0).fit_transform(X))
print(
    f"agreement with the digits: NTK {adjusted_rand_score(y, clusters):.2f}, linear {adjusted_rand_score(y, plain):.2f}"
)

# %%
fig, ax = plt.subplots(figsize=(5, 4.5), layout="constrained")
points = ax.scatter(components[:, 0], components[:, 1], c=y, cmap="tab10", s=6)
ax.set(xlabel="component 1", ylabel="component 2", title="Kernel principal components, NTK of depth 3")
ax.legend(*points.legend_elements(), title="digit", fontsize="small", loc="best")
plt.show()
