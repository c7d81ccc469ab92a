"""Planning through contact: tasks, planners that use a contact model, and MuJoCo in C as the plant."""
