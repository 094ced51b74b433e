package carve

import "slices"

// PassNames returns the names in the pass table.
func PassNames() []string {
	var out []string
	for _, p := range passes {
		out = append(out, p.name)
	}
	return out
}

// CheckOrder checks a table of these passes, in this order, against the constraints.
func CheckOrder(names []string) error {
	var list []pass
	for _, name := range names {
		i := slices.IndexFunc(passes, func(p pass) bool { return p.name == name })
		list = append(list, passes[i])
	}
	return checkOrder(list, constraints)
}
