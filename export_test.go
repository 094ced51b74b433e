package carve

// PassNames returns the names in the pass table.
func PassNames() []string {
	var out []string
	for _, p := range passes {
		out = append(out, p.name)
	}
	return out
}
