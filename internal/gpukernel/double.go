package gpukernel

import "regexp"

// Kernels of double precision are those of float32 with another element type: templates name it, and expressions and functions are
// rewritten.

var (
	floatFunction = regexp.MustCompile(`_f32\b`)
	floatType     = regexp.MustCompile(`\bf32\b`)
	floatNumber   = regexp.MustCompile(`\b(\d+\.\d*(?:e[-+]?\d+)?|\d+e[-+]?\d+)f\b`)
)

// doubled returns text of the dialect on float32 as text on double precision. Numbers that are written as bits stay what they are.
func doubled(text string) string {
	s := floatFunction.ReplaceAllString(text, "_f64")
	s = floatType.ReplaceAllString(s, "f64")
	return floatNumber.ReplaceAllString(s, "$1")
}

// doubles reports whether a program computes in double precision.
func (p *Program) doubles() bool {
	for i := range p.nodes {
		if p.nodes[i].typ == F64 {
			return true
		}
	}
	return false
}

// checkDouble returns an error where a device has no double precision.
func (d Device) checkDouble() error {
	if !d.Double || d.Prebuilt {
		return unsupported("double precision, which the device, or what was compiled for it beforehand, does not have")
	}
	return nil
}
