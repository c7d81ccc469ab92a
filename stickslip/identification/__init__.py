"""Identification: friction, mass, stiffness and more from trajectories, for every physics, with intervals."""

from stickslip.identification.fit import Estimate as Estimate
from stickslip.identification.fit import Fit as Fit
from stickslip.identification.identify import identify as identify
from stickslip.identification.measure import Measure as Measure
from stickslip.identification.pad import Ball as Ball
from stickslip.identification.pad import Flat as Flat
from stickslip.identification.pad import Law as Law
from stickslip.identification.pad import PadFit as PadFit
from stickslip.identification.pad import Press as Press
from stickslip.identification.pad import fit_pad as fit_pad
from stickslip.identification.parameter import Parameter as Parameter
from stickslip.identification.parameters import Armature as Armature
from stickslip.identification.parameters import Delay as Delay
from stickslip.identification.parameters import Dissipation as Dissipation
from stickslip.identification.parameters import Friction as Friction
from stickslip.identification.parameters import JointDamping as JointDamping
from stickslip.identification.parameters import JointFriction as JointFriction
from stickslip.identification.parameters import Mass as Mass
from stickslip.identification.parameters import ModelField as ModelField
from stickslip.identification.parameters import Modulus as Modulus
from stickslip.identification.parameters import PairFriction as PairFriction
from stickslip.identification.parameters import ServoGain as ServoGain
from stickslip.identification.parameters import StaticFriction as StaticFriction
from stickslip.identification.parameters import Stiffness as Stiffness
from stickslip.identification.trial import Trial as Trial
