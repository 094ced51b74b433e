package cpuid

import (
	"fmt"

	"golang.org/x/sys/cpu"
)

func detect() Features {
	x := &cpu.X86
	var f Features
	for _, e := range []struct {
		has     bool
		feature Features
	}{
		{x.HasAVX2, AVX2}, {x.HasFMA, FMA}, {x.HasF16C, F16C}, {x.HasAVX512F, AVX512F}, {x.HasAVX512BW, AVX512BW},
		{x.HasAVX512DQ, AVX512DQ}, {x.HasAVX512VL, AVX512VL}, {x.HasAVX512VNNI, AVX512VNNI}, {splits512(signature()), Split512},
		{x.HasBMI2, BMI2}, {x.HasAVX512BF16, AVX512BF16}, {x.HasAVX512VBMI, AVX512VBMI},
	} {
		if e.has {
			f |= e.feature
		}
	}
	if x.HasAMXTile && (x.HasAMXInt8 || x.HasAMXBF16) && tilesAllowed() {
		if x.HasAMXInt8 {
			f |= AMXInt8
		}
		if x.HasAMXBF16 {
			f |= AMXBF16
		}
	}
	return f
}

// splits512 reports whether a processor is an AMD of family 19h.
func splits512(vendor, model uint32) bool {
	const authenticAMD = 'A' | 'u'<<8 | 't'<<16 | 'h'<<24
	return vendor == authenticAMD && model>>8&15+model>>20&255 == 0x19
}

// Model tells processors apart that differ in vendor, family, model or stepping: "amd64 Auth 00a20f12".
func Model() string {
	vendor, model := signature()
	name := []byte{byte(vendor), byte(vendor >> 8), byte(vendor >> 16), byte(vendor >> 24)}
	return fmt.Sprintf("amd64 %s %08x", name, model)
}

// signature returns EBX of CPUID leaf 0, which names the vendor, and EAX of leaf 1, the model.
//
//go:noescape
func signature() (vendor uint32, model uint32)
