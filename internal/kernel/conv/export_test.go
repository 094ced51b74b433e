package conv

// Peak512 and Peak256 run n times 12 register-only multiply-adds.
var Peak512, Peak256 = peaks()

// Parts reports whether a plan computes sums in parts.
func Parts(p *Plan) bool { return p.parts }
