"""How well do planners close the loop?"""
