package graph

import (
	"strconv"

	"github.com/carve-dev/carve/graph/tensor"
)

// appendType appends the form of Type.String, with symbols quoted where they are no identifiers.
func appendType(b []byte, t Type) []byte {
	elem := func(b []byte) []byte {
		if t.Elem == nil {
			return append(b, '?')
		}
		return appendType(b, *t.Elem)
	}
	switch t.Kind {
	case KindTensor:
		if t.DType == tensor.Invalid {
			b = append(b, '?')
		} else {
			b = append(b, t.DType.String()...)
		}
		if t.Shape == nil {
			return append(b, "[*]"...)
		}
		return appendDims(b, t.Shape)
	case KindSequence:
		return append(elem(append(b, "seq("...)), ')')
	case KindOptional:
		return append(elem(append(b, "opt("...)), ')')
	case KindMap:
		b = append(append(append(b, "map("...), t.DType.String()...), ',')
		return append(elem(b), ')')
	case KindUnknown:
	}
	return append(b, '?')
}

func appendDims(b []byte, dims []Dim) []byte {
	b = append(b, '[')
	for i, d := range dims {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendDim(b, d)
	}
	return append(b, ']')
}

// appendDim appends d as ParseDim reads it: Dim.String with symbols quoted where they are no identifiers.
func appendDim(b []byte, d Dim) []byte {
	for i, t := range d.terms() {
		if i > 0 && t.coef > 0 {
			b = append(b, '+')
		}
		switch t.coef {
		case 1:
		case -1:
			b = append(b, '-')
		default:
			b = append(strconv.AppendInt(b, t.coef, 10), '*')
		}
		for j, a := range t.atoms {
			if j > 0 {
				b = append(b, '*')
			}
			b = appendAtom(b, a)
		}
	}
	if d.e == nil {
		return strconv.AppendInt(b, d.c, 10)
	}
	if d.c > 0 {
		b = append(b, '+')
	}
	if d.c != 0 {
		b = strconv.AppendInt(b, d.c, 10)
	}
	return b
}

func appendAtom(b []byte, a atom) []byte {
	if a.kind == atomSymbol {
		if isSymbol(a.name) {
			return append(b, a.name...)
		}
		return appendQuoted(b, a.name)
	}
	b = append(append(b, atomNames[a.kind]...), '(')
	b = append(appendDim(b, a.a), ',')
	return append(appendDim(b, a.b), ')')
}

// isSymbol reports whether the name of a symbol needs no quotes: a letter, _ or ?, then letters, digits, _, ? and dots.
func isSymbol(s string) bool {
	for i := range len(s) {
		if !isSymbolByte(s[i]) || i == 0 && (s[i] >= '0' && s[i] <= '9' || s[i] == '.') {
			return false
		}
	}
	return s != ""
}

func isSymbolByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '?' || c == '.'
}

// appendFormat appends @host:NCHW16c, quoted behind the @ where an opaque layout has odd characters.
func appendFormat(b []byte, f Format, rank int) []byte {
	s := f.Name(rank)
	b = append(b, '@')
	for i := range len(s) {
		if !isFormatByte(s[i]) {
			return appendQuoted(b, s)
		}
	}
	return append(b, s...)
}

func isFormatByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '.' || c == ':' || c == '-' || c == '@'
}
