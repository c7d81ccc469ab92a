"""How smooth and how fast is differentiable contact?"""
