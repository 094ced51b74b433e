package onnx

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/wire"
)

// maxTypeDepth bounds how deep types are nested.
const maxTypeDepth = 32

// dimNames makes dims of what a TypeProto says of them.
type dimNames interface {
	named(name string) graph.Dim
	unknown() graph.Dim
}

// typ reads a TypeProto. Sparse tensors have the type of the dense ones that they become; opaque types are unknown.
func (l *loader) typ(msg []byte, dims dimNames, depth int) (graph.Type, error) {
	var t graph.Type
	if depth > maxTypeDepth {
		return t, fmt.Errorf("%w: types, more than %d", ErrDepth, maxTypeDepth)
	}
	err := wire.Each(msg, func(f wire.Field) (err error) {
		var b []byte
		switch f.Num {
		case 1, 8: // tensor, sparse tensor
			if err = f.Bytes(&b); err == nil {
				t, err = l.tensorType(b, dims)
			}
		case 4, 5, 9: // sequence, map, optional
			if err = f.Bytes(&b); err == nil {
				t, err = l.elemType(b, f.Num == 5, dims, depth)
				switch f.Num {
				case 4:
					t.Kind = graph.KindSequence
				case 5:
					t.Kind = graph.KindMap
				default:
					t.Kind = graph.KindOptional
				}
			}
		}
		return err
	})
	return t, err
}

// elemType reads the messages Sequence, Optional and Map, which differ by the map's keys.
func (l *loader) elemType(msg []byte, isMap bool, dims dimNames, depth int) (graph.Type, error) {
	t := graph.Type{Elem: &graph.Type{}}
	err := wire.Each(msg, func(f wire.Field) (err error) {
		switch {
		case isMap && f.Num == 1:
			t.DType, err = elemDType(f)
		case !isMap && f.Num == 1, isMap && f.Num == 2:
			var b []byte
			if err = f.Bytes(&b); err == nil {
				*t.Elem, err = l.typ(b, dims, depth+1)
			}
		}
		return err
	})
	return t, err
}

func elemDType(f wire.Field) (tensor.DType, error) {
	var v int64
	if err := f.Int(&v); err != nil {
		return tensor.Invalid, err
	}
	if v == 0 {
		return tensor.Invalid, nil
	}
	if v < 0 || v > 255 || !tensor.DType(v).Valid() {
		return tensor.Invalid, fmt.Errorf("%w: data type %d", tensor.ErrDType, v)
	}
	return tensor.DType(v), nil
}

func (l *loader) tensorType(msg []byte, dims dimNames) (graph.Type, error) {
	t := graph.Type{Kind: graph.KindTensor}
	err := wire.Each(msg, func(f wire.Field) (err error) {
		switch f.Num {
		case 1:
			t.DType, err = elemDType(f)
		case 2:
			var b []byte
			if err = f.Bytes(&b); err == nil {
				t.Shape, err = l.shape(b, dims)
			}
		}
		return err
	})
	return t, err
}

// shape reads a TensorShapeProto.
func (l *loader) shape(msg []byte, dims dimNames) (graph.Shape, error) {
	s := graph.Shape{}
	err := wire.Each(msg, func(f wire.Field) error {
		if f.Num != 1 {
			return nil
		}
		if len(s) == 64 {
			return fmt.Errorf("%w: rank above 64", ErrTooLarge)
		}
		var b []byte
		if err := f.Bytes(&b); err != nil {
			return err
		}
		var n int64
		var name string
		known := false
		err := wire.Each(b, func(f wire.Field) error {
			switch f.Num {
			case 1:
				known = true
				return f.Int(&n)
			case 2:
				return l.words.of(f, &name)
			}
			return nil
		})
		switch {
		case known && n >= 0 && n < 1<<48:
			s = append(s, graph.D(int(n)))
		case name != "":
			s = append(s, dims.named(name))
		default:
			s = append(s, dims.unknown())
		}
		return err
	})
	return s, err
}

// inputDims makes symbols of the dims of the graph's inputs: the shapes of a run bind them, named or not.
type inputDims struct {
	l     *loader
	input string
	count int
}

func (d *inputDims) named(name string) graph.Dim {
	d.count++
	if strings.Trim(name, "?") == "" {
		d.count--
		return d.unknown()
	}
	if e, ok := d.l.expression(name); ok {
		return e
	}
	return graph.Sym(d.l.symbol(name))
}

// identifiers takes the names of dims that are symbols as they are, before any other is made.
type identifiers struct{ l *loader }

func (d identifiers) named(name string) graph.Dim {
	if identifier(name) == name {
		d.l.symbol(name)
	}
	return graph.Dim{}
}

func (d identifiers) unknown() graph.Dim { return graph.Dim{} }

func (d *inputDims) unknown() graph.Dim {
	d.count++
	return graph.Sym(d.l.newSymbol(identifier(d.input) + "_" + strconv.Itoa(d.count-1)))
}

// symbol returns the symbol for a name of a model, which need not be an identifier; one for one.
func (l *loader) symbol(name string) string {
	s, ok := l.symbols[name]
	if !ok {
		s = l.newSymbol(identifier(name))
		l.symbols[name] = s
	}
	return s
}

func (l *loader) newSymbol(s string) string { return l.taken.unique(s) }

// identifier returns name with what no identifier has made "_".
func identifier(name string) string {
	b := []byte(name)
	for i, c := range b {
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '_' || i > 0 && (c >= '0' && c <= '9' || c == '.')
		if !letter {
			b[i] = '_'
		}
	}
	switch s := string(b); s {
	case "", "min", "max", "mod", "floordiv", "bcast", "position":
		return s + "_"
	default:
		return s
	}
}

// innerDims makes dims of the types of other values: symbols of the inputs where they are named so, else unbacked ones,
// the same for the same name. Names in functions are the function's own.
type innerDims struct {
	l    *loader
	own  bool // of a function
	seen map[string]graph.Dim
}

func (d *innerDims) named(name string) graph.Dim {
	if v, ok := d.seen[name]; ok {
		return v
	}
	v, ok := d.outer(name)
	if !ok {
		v = d.unknown()
	}
	if strings.Trim(name, "?") != "" {
		d.seen[name] = v
	}
	return v
}

// outer returns the dim that a name stands for among the inputs' symbols.
func (d *innerDims) outer(name string) (graph.Dim, bool) {
	if d.own {
		return graph.Dim{}, false
	}
	if s, ok := d.l.symbols[name]; ok {
		return graph.Sym(s), true
	}
	return d.l.expression(name)
}

func (d *innerDims) unknown() graph.Dim { return d.l.top.Fresh() }
