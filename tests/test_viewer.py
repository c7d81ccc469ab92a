"""The viewer without a browser: what is drawn and where, the session, pulls, replays, ports, the gallery."""

import dataclasses
import os
import signal
import socket
import subprocess
import sys
import threading
import time

import mujoco
import numpy as np
import pytest

import stickslip as ss
from stickslip import mjcf
from stickslip.errors import InputError, MissingExtra, SceneError
from stickslip.physics.base import Contacts

viser = pytest.importorskip("viser", reason="the viewer needs viser: pip install 'stickslip[viewer]'")

from stickslip.viewer import contacts, gallery, layout, replay, server, settings, shapes  # noqa: E402
from stickslip.viewer.bodies import Bodies, poses, rotated  # noqa: E402
from stickslip.viewer.lane import Lane  # noqa: E402
from stickslip.viewer.page import Choices, Page  # noqa: E402
from stickslip.viewer.pull import FREQUENCY, Pull  # noqa: E402
from stickslip.viewer.refusals import refusal  # noqa: E402
from stickslip.viewer.replay import Clip, Replay  # noqa: E402
from stickslip.viewer.session import Frame, Session  # noqa: E402

SCENE = "pinch"


@pytest.fixture(scope="module")
def web():
    with_server = server.serve(None, server.HOST, "test")
    yield with_server
    server.halt(with_server)


@pytest.fixture
def session():
    return Session([Lane(ss.Simulation(SCENE, nworld=2, device="cpu"))])


@pytest.mark.parametrize(
    ("geom", "volume"),
    [
        ('type="box" size="1 2 3"', 48.0),
        ('type="sphere" size="2"', 32.0 / 3.0 * np.pi),
        ('type="ellipsoid" size="1 2 3"', 8.0 * np.pi),
        ('type="cylinder" size="2 3"', 24.0 * np.pi),
        ('type="capsule" size="2 3"', 24.0 * np.pi + 32.0 / 3.0 * np.pi),
    ],
)
@pytest.mark.parametrize("around", [16, 24])
def test_shapes_are_closed_and_face_outwards(geom, volume, around):
    mjm = mujoco.MjModel.from_xml_string(f"<mujoco><worldbody><geom {geom}/></worldbody></mujoco>")
    inside = 0.0
    for part in shapes.parts(mjm, 0, 1.0):
        mesh = shapes.mesh(mjm, part.shape, around)
        vertices = rotated(np.tile(part.quat, (len(mesh.vertices), 1)), mesh.vertices * part.scale) + part.pos
        a, b, c = (vertices[mesh.faces[:, i]] for i in range(3))
        inside += np.einsum("ij,ij->i", a, np.cross(b, c)).sum() / 6.0
    assert inside == pytest.approx(volume, rel=0.07) and inside < 1.001 * volume


def test_every_geom_of_every_lane_and_world_is_drawn_where_it_is(web):
    mjm = ss.load("hand")
    mjd = mujoco.MjData(mjm)
    qpos = np.tile(mjm.key_qpos[0], (3, 1))
    qpos[:, 0] += [0.0, 0.1, 0.2]
    where = [poses(mjm, mjd, qpos, None, None), poses(mjm, mjd, qpos[::-1], None, None)]
    places = layout.place(layout.box(mjm, mjd), 2, 3, "grid", 0)
    bodies = Bodies(web.scene, mjm, places, where)
    drawn = np.concatenate([batch.handle.batched_positions for batch in bodies._batches])
    for lane, order in enumerate((qpos, qpos[::-1])):
        for world in range(3):
            mjd.qpos[:] = order[world]
            mujoco.mj_kinematics(mjm, mjd)
            for geom in np.flatnonzero((mjm.geom_type == mujoco.mjtGeom.mjGEOM_BOX) & (mjm.geom_group < 3)):
                at = mjd.geom_xpos[geom] + places.offsets[lane, world]
                assert np.abs(drawn - at).sum(axis=1).min() < 1e-5, (lane, world, mjm.geom(geom).name)
    bodies.remove()


def test_worlds_do_not_overlap():
    box = layout.Box(np.array([-0.1, -0.2, 0.0]), np.array([0.3, 0.2, 0.5]))
    places = layout.place(box, 2, 5, "grid", 0, np.array([0.6, 0.8, 0.0])).offsets.reshape(-1, 3)
    for i, here in enumerate(places):
        for other in places[i + 1 :]:
            apart = np.abs(here - other)
            assert (apart[:2] >= box.size[:2]).any()
    ghosts = layout.place(box, 1, 5, "ghosts", 2)
    assert (ghosts.offsets == ghosts.offsets[:, :1]).all() and ghosts.opacities[2] == 1.0 > ghosts.opacities[0]


def test_a_body_that_fell_far_away_does_not_shrink_the_rest():
    mjm = ss.load(SCENE)
    mjd = mujoco.MjData(mjm)
    mujoco.mj_forward(mjm, mjd)
    usual = layout.box(mjm, mjd)
    mjd.geom_xpos[mjm.body("capsule").geomadr[0]] = 0.0, 0.0, -1e4
    assert (layout.box(mjm, mjd).size <= usual.size + 1e-9).all()


def test_a_camera_of_a_narrow_window_is_further_away():
    mjm = ss.load(SCENE)
    mjd = mujoco.MjData(mjm)
    mujoco.mj_forward(mjm, mjd)
    places = layout.place(layout.box(mjm, mjd), 1, 1, "one", 0)
    wide, narrow = (layout.look(mjm, mjd, places, window) for window in ((1600, 1000), (600, 1000)))
    assert np.linalg.norm(narrow.position - narrow.target) > 1.3 * np.linalg.norm(wide.position - wide.target)
    assert narrow.target[2] < wide.target[2]  # above the panel


@pytest.mark.parametrize(("window", "mode"), [((1600, 1000), "one"), ((1000, 640), "grid"), ((600, 1000), "grid")])
def test_all_worlds_are_in_view_beside_the_panel(window, mode):
    mjm = ss.load(SCENE)
    mjd = mujoco.MjData(mjm)
    mujoco.mj_forward(mjm, mjd)
    places = layout.place(layout.box(mjm, mjd), 2, 5, mode, 0, np.array([0.6, 0.8, 0.0]))
    camera, aspect = layout.look(mjm, mjd, places, window), window[0] / window[1]
    ahead = (camera.target - camera.position) / np.linalg.norm(camera.target - camera.position)
    right = np.cross(ahead, [0.0, 0.0, 1.0])
    right /= np.linalg.norm(right)
    ends = np.stack([places.box.low, places.box.high])
    corners = np.array([[ends[i & 1, 0], ends[i >> 1 & 1, 1], ends[i >> 2, 2]] for i in range(8)])
    seen = (places.offsets.reshape(-1, 1, 3) + corners).reshape(-1, 3) - camera.position
    half = np.tan(0.5 * camera.fov) * (seen @ ahead)
    x, y = seen @ right / (aspect * half), seen @ np.cross(right, ahead) / half  # from -1 to 1 in the window
    assert x.min() > -1.0 and y.max() < 1.0
    assert x.max() < (1.0 - 2.0 * layout.PANEL / window[0] if aspect > 1.0 else 1.0)
    assert y.min() > (-1.0 if aspect > 1.0 else 0.0)
    assert max(np.ptp(x), np.ptp(y)) > 0.5  # and they are not small


def test_contacts_stick_slip_and_separate_by_their_forces():
    force = np.zeros((3, 6))
    force[:, 0] = 10.0, 10.0, 0.0
    force[:, 1] = 3.0, 5.0, 0.0
    found = Contacts(
        np.zeros(3, int), np.zeros((3, 2), int), np.zeros(3), np.zeros((3, 3)), np.tile(np.eye(3), (3, 1, 1)), force
    )
    names = list(contacts.COLOURS)
    assert [names[i] for i in contacts.kinds(found, np.full(3, 0.5))] == ["stick", "slip", "separating"]


def test_a_patch_is_one_arrow_at_the_centre_of_pressure():
    sim = ss.Simulation("edge-grip", ss.Icf(), device="cpu")
    sim.step(20)
    points, patches = sim.contacts(), sim.patches()
    kind = contacts.kinds(points, contacts.Friction(sim.mjm).of(points.geom))
    found, does = contacts.whole(points, kind, patches)
    assert len(found) == len(patches) == 2 < len(points) and len(does) == 2
    assert np.allclose(contacts.forces(found), patches.force, atol=1e-5) and (found.pos == patches.centre).all()
    assert np.allclose(found.frame @ found.frame.transpose(0, 2, 1), np.eye(3), atol=1e-6)
    assert (found.force[:, 0] > 0.9 * np.linalg.norm(found.force[:, :3], axis=1)).all()
    assert (does == contacts.kinds(found, np.full(2, 1.0))).all()
    none, _ = contacts.whole(points, kind, None)
    assert none is points


def test_friction_is_combined_as_in_mujoco():
    mjm = mujoco.MjModel.from_xml_string(
        """<mujoco><worldbody><geom type="plane" size="1 1 1" friction="0.3"/>
        <body pos="0 0 0.09"><freejoint/><geom size="0.1" friction="0.7"/></body>
        <body pos="0.5 0 0.09"><freejoint/><geom size="0.1" friction="0.2" priority="1"/></body>
        <body pos="-0.5 0 0.09"><freejoint/><geom name="p" size="0.1" friction="0.9"/></body></worldbody>
        <contact><pair geom1="f" geom2="p" friction="0.05 0.05 0.1 0.1 0.1"/></contact></mujoco>""".replace(
            '<geom type="plane"', '<geom name="f" type="plane"'
        )
    )
    mjd = mujoco.MjData(mjm)
    mujoco.mj_forward(mjm, mjd)
    got = contacts.Friction(mjm).of(mjd.contact.geom)
    assert len(got) == 3 and got == pytest.approx(mjd.contact.friction[:, 0])


def test_another_physics_continues_from_the_same_state(session):
    session._step(5)
    before = session.lanes[0].sim.state
    session.replace(0, ss.ComFree())
    after = session.lanes[0].sim.state
    assert session.lanes[0].label == "comfree"
    assert np.array_equal(after.qpos, before.qpos) and np.array_equal(after.qvel, before.qvel)
    assert np.array_equal(after.time, before.time) and np.array_equal(after.ctrl, before.ctrl)


def test_lanes_start_from_one_state_and_can_be_aligned_again(session):
    session._step(5)
    session.add(ss.ComFree())
    first, second = session.sims
    assert np.array_equal(first.state.qpos, second.state.qpos)
    session._step(10)
    assert not np.array_equal(first.state.qpos, second.state.qpos)
    assert np.array_equal(first.state.time, second.state.time)  # one clock
    session.align()
    assert np.array_equal(first.state.qpos, second.state.qpos)
    session.drop(1)
    assert len(session.lanes) == 1


def test_a_session_steps_without_anybody_who_looks(session):
    session.start()
    sim = session.sims[0]
    end = time.monotonic() + 60.0
    while float(sim.time.numpy()[0]) < 0.1:
        assert time.monotonic() < end
        time.sleep(0.05)
    frame = session.frame(5.0)
    session.stop()
    assert frame is not None and frame.shots[0].time >= 0.1 and not session.errors


def test_an_error_is_told_and_the_session_goes_on(session):
    def wrong():
        raise InputError("no such thing")

    session.order(wrong)
    session.paused = True
    session.tick()
    assert session.errors == ["no such thing"]
    session.single()
    session.tick()
    assert session.sims[0].state.time[0] == pytest.approx(session.mjm.opt.timestep)


def test_later_orders_with_the_same_key_replace_earlier_ones(session):
    done = []
    for i in range(5):
        session.order(lambda i=i: done.append(i), "slider")
    session.paused = True
    session.tick()
    assert done == [4]


def test_a_pull_holds_a_body_under_the_mouse_in_its_world_only(session):
    sim, body = session.sims[0], session.mjm.body("capsule").id
    sim.ctrl = np.zeros(2)  # the fingers let go
    free = ss.Simulation(SCENE, nworld=2, device="cpu")
    free.ctrl = np.zeros(2)
    target = np.array([0.2, 0.0, 0.1])
    session.pulls.set(7, Pull(0, 1, body, np.zeros(3), target))
    for _ in range(250):
        session._step(4)
    free.step(1000)
    start = session.mjm.jnt_qposadr[session.mjm.joint("capsule").id]
    sag = 9.81 / FREQUENCY**2  # where the spring carries the weight
    assert sim.state.qpos[1, start : start + 3] == pytest.approx(target - [0.0, 0.0, sag], abs=2e-3)
    assert np.array_equal(sim.state.qpos[0], free.state.qpos[0])
    session.pulls.release(7)
    session._step(1)
    assert not sim.xfrc_applied.numpy().any()


def test_two_clients_pull_at_once(session):
    target = np.array([0.0, 0.0, 1.0])
    for client, body in ((0, 1), (1, 2)):
        session.pulls.set(client, Pull(0, 0, body, np.zeros(3), target))
    session.pulls.apply(session.sims, session._mjd)
    forces = session.sims[0].xfrc_applied.numpy()
    assert forces[0, 1].any() and forces[0, 2].any() and not forces[1].any()
    session.pulls.release(0)
    session.pulls.apply(session.sims, session._mjd)
    forces = session.sims[0].xfrc_applied.numpy()
    assert not forces[0, 1].any() and forces[0, 2].any()


def test_beside_a_loop_of_ones_own():
    sim = ss.Simulation(SCENE, nworld=2, device="cpu")
    with ss.Viewer(sim) as viewer:
        assert viewer.url.startswith("http://127.0.0.1:") and viewer.is_running()
        for _ in range(60):
            sim.step()
            viewer.sync()
            time.sleep(0.01)
        assert viewer._page.layout is not None and not viewer.errors and not viewer._source.errors
        viewer._source.paused = True
        held = threading.Thread(target=viewer.sync)
        held.start()
        held.join(0.3)
        assert held.is_alive()
        viewer._source.paused = False
        held.join(5.0)
        assert not held.is_alive()
    assert not viewer.is_running()
    assert sim.state.time[0] == pytest.approx(60 * sim.mjm.opt.timestep, rel=1e-4)
    viewer.sync()  # after the end it does nothing


def test_a_model_with_ten_thousand_geoms_is_drawn_with_few_batches(web):
    spec = mujoco.MjSpec()
    for i in range(10_000):
        kind = (mujoco.mjtGeom.mjGEOM_BOX, mujoco.mjtGeom.mjGEOM_CAPSULE)[i % 2]
        spec.worldbody.add_geom(type=kind, size=[0.01, 0.02, 0.03], pos=[i % 100, i // 100, 0.0])
    mjm = spec.compile()
    page = Page(web, Choices(), None)
    shot = replay.shot(Clip("x", np.zeros(1), np.zeros((1, 1, 0))), 0.0)
    page.draw(mjm, Frame(0, (shot,), 1.0, False))
    assert page._bodies is not None
    assert len(page._bodies._batches) == 3  # boxes, tubes and caps
    assert sum(len(b.handle.batched_positions) for b in page._bodies._batches) == 5_000 + 3 * 5_000
    page._remove()


def test_a_physics_that_cannot_run_a_model_says_why():
    assert refusal("cone-sweep", ss.load("hand")) == ""
    assert "joints other than free" in refusal("pbd-r", ss.load("hand"))


def test_a_port_that_is_taken_is_named_with_its_owner():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(InputError, match=f"port {port} is taken by .*give another one"):
            server.find_port(port, server.HOST)
        if sys.platform == "linux":
            assert f"process {os.getpid()}" in server.owner(port)


@pytest.mark.parametrize("port", [0, 70000, True])
def test_a_port_out_of_range_is_refused(port):
    with pytest.raises(InputError, match="from 1 to 65535"):
        server.find_port(port, server.HOST)


def test_a_host_of_another_machine_is_refused():
    with pytest.raises(InputError, match="192.0.2.1"):
        server.find_port(None, "192.0.2.1")


def test_the_server_is_this_machines_alone_and_opens_no_tunnel(web):
    assert web.get_host() == "127.0.0.1"
    assert viser._messages.ShareUrlRequest not in web._websock_server._incoming_handlers
    with pytest.warns(UserWarning, match="ssh -L"):
        server.halt(server.serve(None, "0.0.0.0", "test"))


def test_without_viser_an_error_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "viser", None)
    with pytest.raises(MissingExtra, match=r"stickslip\[viewer\]"):
        server.viser()


def test_controls_come_from_declarations(web):
    changed = {}
    kind = ss.ConeSweep
    values = {field.name: getattr(kind(), field.name) for field in dataclasses.fields(kind)}
    with web.gui.add_folder("test"):
        made = settings.add(web.gui, kind(), values, changed.__setitem__)
    by_name = {each.label: each for each in made}
    assert set(by_name) <= set(values) and "substeps" in by_name
    assert "parts" in by_name["substeps"].hint or by_name["substeps"].hint
    by_name["substeps"].value = "12"
    deadline = time.monotonic() + 5.0
    while "substeps" not in changed and time.monotonic() < deadline:
        time.sleep(0.02)
    assert changed == {"substeps": 12}
    by_name["substeps"].value = "many"  # not a number: put back
    while by_name["substeps"].value == "many" and time.monotonic() < deadline:
        time.sleep(0.02)
    assert by_name["substeps"].value == "12" and changed == {"substeps": 12}


def test_recordings_are_replayed(tmp_path):
    mjm = ss.load(SCENE)
    times = np.linspace(0.0, 1.0, 11)
    qpos = np.tile(mjm.qpos0, (11, 2, 1))
    qpos[:, 1, 0] = times
    np.savez(tmp_path / "trajectory.npz", time=np.stack([times, times], 1), qpos=qpos, qvel=np.zeros((11, 2, mjm.nv)))
    with pytest.raises(InputError, match="--scene"):
        replay.read(tmp_path / "trajectory.npz", None)
    (tmp_path / "summary.json").write_text('{"settings": {"scene": "pinch", "physics": "icf"}}')
    model, clips = replay.read(tmp_path / "trajectory.npz", None)
    played = Replay(model, clips, paused=True)
    assert played.nworld == 2 and played.duration == 1.0 and clips[0].label == "icf"
    played.cursor = 0.55
    frame = played.frame(0.01)
    assert frame is not None and frame.shots[0].qpos[1, 0] == pytest.approx(0.5)
    assert played.frame(0.01) is None  # nothing new
    played.single()
    assert played.cursor == pytest.approx(0.6)
    with pytest.raises(InputError, match="another scene"):
        Replay(ss.load("hand"), clips)


def test_a_recording_with_its_model_needs_no_scene(tmp_path):
    mjm = ss.load(SCENE)
    model = np.frombuffer(mjcf.to_bytes(mjm), dtype=np.uint8)
    qpos = np.tile(mjm.qpos0, (4, 1))
    np.savez(tmp_path / "run.npz", time=np.arange(4.0), qpos=qpos, reference_qpos=qpos + 0.1, model=model)
    found, clips = replay.read(tmp_path / "run.npz", None)
    assert [found.body(i).name for i in range(found.nbody)] == [mjm.body(i).name for i in range(mjm.nbody)]
    assert [clip.label for clip in clips] == ["robot", "reference"]
    frame = Replay(found, clips, paused=True).frame(0.01)
    assert frame is not None and frame.shots[1].qpos[0, 0] == pytest.approx(mjm.qpos0[0] + 0.1)
    np.savez(tmp_path / "run.npz", time=np.arange(4.0), qpos=qpos, model=model[:100])
    with pytest.raises(SceneError, match="the model in .*run.npz"):
        replay.read(tmp_path / "run.npz", None)


def test_trajectories_of_record_are_replayed(tmp_path):
    sim = ss.Simulation(SCENE, nworld=2, device="cpu")
    with sim.record(tmp_path / "run.npz", ("qpos", "qvel"), every=2) as recorder:
        sim.step(10)
    del recorder
    _, clips = replay.read(tmp_path / "run.npz", SCENE)
    assert clips[0].qpos.shape == (2, 5, sim.mjm.nq) and clips[0].label.startswith("cone-sweep")
    with pytest.raises(InputError, match="give scene="):
        ss.view(ss.Trajectory.load(tmp_path / "run.npz"))


@pytest.mark.parametrize("content", [b"", b"no zip"])
def test_a_file_that_is_no_recording_is_refused(tmp_path, content):
    path = tmp_path / "x.npz"
    path.write_bytes(content)
    with pytest.raises(InputError, match="x.npz"):
        replay.read(path, SCENE)


def test_simulations_of_different_models_are_refused():
    one = ss.Simulation(SCENE, device="cpu")
    two = ss.Simulation(SCENE, nworld=2, device="cpu")
    with pytest.raises(InputError, match="must agree"):
        ss.Viewer([one, two])
    with pytest.raises(InputError, match="got str"):
        ss.Viewer(["pinch"])  # pyright: ignore[reportArgumentType]


def test_a_gallery_has_clips_and_reasons():
    clip = gallery.record(SCENE, "cone-sweep", 0.1, "cpu")
    refused = gallery.record(SCENE, "pbd-r", 0.1, "cpu")
    assert len(clip.data) > 1000 and not clip.refused and "pbd-r" in refused.refused
    text = gallery.page([clip, refused])
    assert "play(0, this)" in text and "disabled title=" in text and "http://" not in text.split("<script>")[0]


def test_ctrl_c_ends_the_command():
    command = [sys.executable, "-m", "stickslip", "view", SCENE, "--device", "cpu", "--paused"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None and process.stderr is not None
    line = process.stdout.readline()
    assert "The viewer is at http://127.0.0.1:" in line
    process.send_signal(signal.SIGINT)
    assert process.wait(60) == 0
    assert "Traceback" not in process.stderr.read()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["pinhc"], "did you mean 'pinch'"),
        (["pinch", "--physics", "mujoko"], "did you mean 'mujoco'"),
        (["pinch", "--nworld", "0"], "at least 1"),
        (["pinch", "--port", "99999"], "65535"),
        (["missing.npz"], "missing.npz"),
        (["pinch", "--scene", "hand"], "is for a recording"),
    ],
)
def test_bad_input_ends_with_a_message(arguments, message, capsys):
    from stickslip.cli.main import main

    assert main(["view", *arguments]) == 2
    assert message in " ".join(capsys.readouterr().err.split())
