"""Hydroelastic parameters: where they come from, and what is said of bad ones."""

import mujoco
import numpy as np
import pytest

import stickslip as ss


def model_of(
    user: str = "0 0 0 1e7 0", floor: str = "0", extra: str = "", geom: str = 'type="box" size="0.1 0.1 0.1"'
) -> mujoco.MjModel:
    return mujoco.MjModel.from_xml_string(f"""
        <mujoco>
          <size nuser_geom="5"/>
          <custom>{extra}</custom>
          <worldbody>
            <geom type="plane" size="1 1 0.1" user="{floor}"/>
            <body pos="0 0 0.099"><freejoint/><geom {geom} mass="1" user="{user}"/></body>
          </worldbody>
        </mujoco>""")


def moduli(mjm: mujoco.MjModel, **given: float) -> list[float]:
    hydro = ss.Icf(**given).put_model(mjm).convex.hydro
    return [] if hydro is None else hydro.fields.geom_hydroelastic.numpy()[0].tolist()


def test_where_the_modulus_comes_from() -> None:
    """The physics', or else the geom's, or else the model's; the last is for moving geoms only."""
    numeric = '<numeric name="hydroelastic_modulus" data="3e6"/>'
    assert moduli(model_of("0")) == []
    assert moduli(model_of()) == [0.0, 1e7]
    assert moduli(model_of("0", extra=numeric)) == [0.0, 3e6]
    assert moduli(model_of(extra=numeric)) == [0.0, 1e7]
    assert moduli(model_of(extra=numeric), hydroelastic=5e6) == [0.0, 5e6]
    assert moduli(model_of("0", floor="0 0 0 2e6 0.05"), hydroelastic=5e6) == [2e6, 5e6]


def test_where_the_depth_comes_from() -> None:
    """The geom's, or else the model's, or else the inradius."""
    numeric = '<numeric name="hydroelastic_depth" data="0.03"/>'
    for user, extra, depth in (
        ("0 0 0 1e7 0", "", 0.1),
        ("0 0 0 1e7 0", numeric, 0.03),
        ("0 0 0 1e7 0.02", numeric, 0.02),
    ):
        hydro = ss.Icf().put_model(model_of(user, extra=extra)).convex.hydro
        assert hydro is not None
        assert hydro.fields.depth.numpy()[1] == pytest.approx(depth)


def test_pairs_are_taken_out_of_point_contact() -> None:
    m = ss.Icf().put_model(model_of())
    assert m.nxn_geom_pair_filtered.shape[0] == 0
    assert m.nxn_pairid.numpy()[:, 0].tolist() == [-2]
    assert ss.Icf().put_model(model_of("0")).nxn_geom_pair_filtered.shape[0] == 1


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            {"user": "0 0 0 -1 0"},
            r"user\[3\] of geom 1, its hydroelastic modulus, is -1.0: it must be finite and positive",
        ),
        ({"user": "0 0 0 1e7 -2"}, r"user\[4\] of geom 1, its hydroelastic depth, is -2.0"),
        ({"floor": "0 0 0 1e7 0"}, "geom 0 is a plane with a hydroelastic modulus of 1e.07 Pa and no depth: name one"),
        ({"extra": '<numeric name="hydroelastic_modulus" data="-1"/>'}, "hydroelastic_modulus.*is -1.0: it must be"),
        ({"extra": '<numeric name="hydroelastic_points" data="2 2"/>'}, "directions from 3 to 32 and points on each"),
        ({"extra": '<numeric name="hydroelastic_points" data="8"/>'}, "it must be two whole numbers"),
    ],
)
def test_bad_parameters(given: dict[str, str], message: str) -> None:
    with pytest.raises(ss.InputError, match=message):
        ss.Simulation(model_of(**given), ss.Icf())


def test_bad_arguments() -> None:
    with pytest.raises(ss.InputError, match="hydroelastic is -1"):
        ss.Icf(hydroelastic=-1.0)
    sim = ss.Simulation(model_of(), ss.Icf())
    with pytest.raises(ss.InputError, match="geom_size cannot change with hydroelastic contact"):
        sim.set_model(geom_size=np.full((1, 2, 3), 0.2))
    sim = ss.Simulation(model_of(), ss.ConeSweep())
    with pytest.raises(ss.Unsupported, match="has no contact patches: bodies touch at points"):
        sim.patches()


def test_shapes_without_a_field_touch_as_points() -> None:
    """A height field under a geom with a modulus; one that has a modulus itself is warned of."""
    xml = """
        <mujoco>
          <size nuser_geom="5"/>
          <asset><hfield name="flat" nrow="2" ncol="2" size="1 1 0.1 0.1"/></asset>
          <worldbody>
            <geom type="hfield" hfield="flat" user="0 0 0 {} 0"/>
            <body pos="0 0 0.0999"><freejoint/><geom type="sphere" size="0.1" mass="1" user="0 0 0 1e7 0"/></body>
          </worldbody>
        </mujoco>"""
    m = ss.Icf().put_model(mujoco.MjModel.from_xml_string(xml.format(0)))
    assert m.convex.hydro is None and m.nxn_geom_pair_filtered.shape[0] == 1
    with pytest.warns(UserWarning, match="1 geoms with a hydroelastic modulus touch as points: height fields"):
        ss.Icf().put_model(mujoco.MjModel.from_xml_string(xml.format(1e7)))
