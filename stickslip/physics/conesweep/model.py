"""The cone sweep's model and data: MuJoCo Warp's, with layouts of trees, rows and equalities, memory and workspace."""

import dataclasses
from typing import ClassVar

import mujoco
import mujoco_warp as mjw
import numpy as np
import warp as wp
from numpy.typing import NDArray

from stickslip.errors import InputError
from stickslip.physics.conesweep.layout import (
    Settings,
    Traits,
    Tree,
)
from stickslip.physics.conesweep.memory.arrays import make_memory
from stickslip.physics.conesweep.prepare.topology import (
    equalities_of_model,
    flat,
    ints,
    is_coupled,
    is_linked,
    make_tree,
    rows_of_model,
    vec2i,
)
from stickslip.physics.conesweep.workspace import Workspace, is_rough, make_workspace
from stickslip.physics.mjwarp import data as warp_data
from stickslip.physics.mjwarp import model as rowfree
from stickslip.physics.mjwarp.data import extended
from stickslip.physics.mjwarp.friction import friction_dofs

wp.set_module_options({"enable_backward": False})


@dataclasses.dataclass
class Layout:
    """What follows from the model alone, and the parameters.

    Attributes:
        settings: parameters of the sweep
        deterministic: whether results must not depend on the number of worlds
        traits: what the model has
        tree: bodies, dofs and trees
        source: kind of each row that can act, and of what             (nrow,)
        eqid: constraint of the model that each equality is            (nequality,)
        friction_dofs: dofs that have a row of dry friction            (*,)
    """

    settings: Settings
    deterministic: bool
    traits: Traits
    tree: Tree
    source: wp.array
    eqid: wp.array
    friction_dofs: NDArray[np.integer]


@dataclasses.dataclass
class Model(rowfree.Model):
    """MuJoCo Warp's model with the cone sweep's layout; every MuJoCo Warp function takes it.

    Attributes:
        sweep: layout and parameters
    """

    sweep: Layout


@dataclasses.dataclass
class Data(warp_data.Data):
    """MuJoCo Warp's data with the cone sweep's memory and workspace.

    Attributes:
        workspace: what one step passes between its kernels
    """

    rows_are_reported_only: ClassVar[bool] = True
    workspace: Workspace


def make_data(mjm: mujoco.MjModel, d: mjw.Data) -> Data:
    """MuJoCo Warp's data with a fresh memory and workspace."""
    workspace = make_workspace(mjm, d)
    memory = make_memory(workspace.previous, workspace.rows, workspace.equalities)
    return Data.extend(d, mjm, memory=memory, workspace=workspace)


def own_data(d: mjw.Data) -> Data:
    """The data as the cone sweep made it; raises InputError for any other."""
    if not isinstance(d, Data):
        raise InputError("this data has no memory of contacts: make it with stickslip.conesweep.make_data or put_data")
    return d


def put_model(
    mjm: mujoco.MjModel,
    batch_sizes: dict[str, int] | None,
    settings: Settings,
    speculative_margin: float,
    deterministic: bool,
) -> Model:
    """MuJoCo Warp's model on the current device, with the cone sweep's layout."""
    m = rowfree.put_model(rowfree.with_margin(mjm, speculative_margin), batch_sizes, mjm)
    sources, columns = rows_of_model(mjm)
    eqid, _ = equalities_of_model(mjm)
    traits = Traits(
        coupled=is_coupled(mjm, flat(columns)),
        linked=is_linked(mjm, sources, columns),
        rows=len(sources) > 0,
        equalities=len(eqid) > 0,
        rough=is_rough(mjm),
    )
    tree = make_tree(mjm, m)
    layout = Layout(settings, deterministic, traits, tree, vec2i(sources), ints(eqid), friction_dofs(mjm))
    return extended(Model, m, sweep=layout)
