package conv

// Peak512 and Peak256 run n times 12 register-only multiply-adds.
var Peak512, Peak256 = peaks()

// Streams reports whether a plan has all weights read for each piece of its source.
func Streams(p *Plan) bool { return p.streams }
