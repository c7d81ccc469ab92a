"""Error-controlled integration around the convex step."""
