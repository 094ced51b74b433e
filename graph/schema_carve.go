package graph

// anyType is the name that a Param's Type or a type variable's list gives for a port of any type.
const anyType = "any"

// carveSchemas returns the schemas of carve's own operators. Convert takes a value to another format and leaves its type.
// Fused and Subgraph take any operands, each one an input of the region "body", and yield the region's outputs.
func carveSchemas(name string) []*Schema {
	one := func(s *Schema) []*Schema {
		s.Domain, s.Name, s.Since = CarveDomain, name, 1
		return []*Schema{s}
	}
	many := func(name string) []Param {
		return []Param{{Name: name, Type: anyType, Optional: true, Variadic: true, Hetero: true}}
	}
	switch name {
	case OpConvert:
		return one(&Schema{
			Inputs:  []Param{{Name: "input", Type: "T"}},
			Outputs: []Param{{Name: "output", Type: "T"}},
			Types:   map[string][]string{"T": {anyType}},
			Infer:   inferConvert,
		})
	case OpFused:
		return one(&Schema{
			Inputs:  many("inputs"),
			Outputs: many("outputs"),
			Attrs:   []AttrSpec{{Name: "pattern", Kind: AttrString}, {Name: AttrStandsFor, Kind: AttrString}, {Name: "body", Required: true}},
			Open:    true,
			Infer:   inferBody,
		})
	case OpSubgraph:
		return one(&Schema{
			Inputs:  many("inputs"),
			Outputs: many("outputs"),
			Attrs:   []AttrSpec{{Name: "backend", Kind: AttrString}, {Name: AttrStandsFor, Kind: AttrString}, {Name: "body", Required: true}},
			Open:    true,
			Infer:   inferBody,
		})
	}
	return nil
}
