"""SCM: smooth contact with gradients and Hessians; see README.md."""
