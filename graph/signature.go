package graph

import "slices"

// Signature is one way in which a backend can run a node or claim: a format for every port. Formats may be variables, so
// that an Add follows its neighbours: ports with the same variable take the same format, one of the variable's set.
type Signature struct {
	Name    string     // identifies the kernel, for reports: "nchw16c", "row-major"
	Inputs  []Port     // one per input of the node, omitted ones included; constants are ports too
	Outputs []Port     // one per output of the node
	Vars    [][]Format // the formats that each variable may take, best first
	Extra   float64    // modelled nanoseconds beyond the node's cost with its best signature
}

// Port is the format of one port: fixed, or variable number Var-1 of the signature.
type Port struct {
	Format Format
	Var    int // 0 for a fixed format
}

// Fixed returns a port of a fixed format.
func Fixed(f Format) Port { return Port{Format: f} }

// Variable returns a port that takes variable i (from 0) of its signature.
func Variable(i int) Port { return Port{Var: i + 1} }

// UniformSignature returns the signature of a node with all ports in one format.
func UniformSignature(name string, n *Node, f Format) Signature {
	s := Signature{Name: name}
	if n == nil {
		return s
	}
	ports := make([]Port, len(n.Inputs)+len(n.Outputs))
	for i := range ports {
		ports[i] = Fixed(f)
	}
	if in := len(n.Inputs); in > 0 {
		s.Inputs = ports[:in:in]
	}
	if len(n.Outputs) > 0 {
		s.Outputs = ports[len(n.Inputs):]
	}
	return s
}

// Resolve returns a copy of s without variables, given a choice (an index into Vars[i]) for each of them.
func (s Signature) Resolve(choice []int) Signature {
	if len(s.Vars) == 0 {
		return s
	}
	fix := func(ports []Port) []Port {
		out := make([]Port, len(ports))
		for i, p := range ports {
			if p.Var > 0 {
				p = Fixed(s.Vars[p.Var-1][choice[p.Var-1]])
			}
			out[i] = p
		}
		return out
	}
	return Signature{Name: s.Name, Inputs: fix(s.Inputs), Outputs: fix(s.Outputs), Extra: s.Extra}
}

// ResolveAll returns copies of s without variables, for up to so many choices, the last variable changing fastest; s itself where it
// has none. A choice of the first format of each comes first.
func (s Signature) ResolveAll(most int) []Signature {
	if len(s.Vars) == 0 {
		return []Signature{s}
	}
	var out []Signature
	choice := make([]int, len(s.Vars))
	for len(out) < most {
		out = append(out, s.Resolve(choice))
		i := len(choice) - 1
		for ; i >= 0; i-- {
			if choice[i]++; choice[i] < len(s.Vars[i]) {
				break
			}
			choice[i] = 0
		}
		if i < 0 {
			break
		}
	}
	return out
}

// Admits reports whether another signature, without variables, is s with formats in the place of its variables.
func (s Signature) Admits(o *Signature) bool {
	if len(s.Inputs) != len(o.Inputs) || len(s.Outputs) != len(o.Outputs) {
		return false
	}
	chosen := make([]*Format, len(s.Vars))
	same := func(ports, others []Port) bool {
		for i, p := range ports {
			f := &others[i].Format
			switch {
			case others[i].Var > 0:
				return false
			case p.Var == 0 && p.Format != *f:
				return false
			case p.Var == 0:
			case p.Var > len(s.Vars) || !slices.Contains(s.Vars[p.Var-1], *f) || chosen[p.Var-1] != nil && *chosen[p.Var-1] != *f:
				return false
			default:
				chosen[p.Var-1] = f
			}
		}
		return true
	}
	return same(s.Inputs, o.Inputs) && same(s.Outputs, o.Outputs)
}
