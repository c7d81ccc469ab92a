"""The contact model that gradient planners use: quasi-dynamic step, kinematics, contacts and cost."""
