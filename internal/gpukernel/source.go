package gpukernel

import (
	"embed"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

//go:embed source/*.h
var sources embed.FS

func source(name string) string {
	b, err := sources.ReadFile("source/" + name)
	if err != nil {
		panic(err) // a name that is written in this package
	}
	return string(b)
}

// Language is what the dialect is compiled as.
type Language uint8

// The languages.
const (
	CUDA   Language = iota // C++ for NVRTC
	OpenCL                 // C 1.2
	Fibres                 // C11 with GNU extensions, a program that runs launches which it reads
)

func (l Language) prelude() string {
	return source([]string{"cuda.h", "opencl.h", "fibre.h"}[l]) + source("scalar.h") + source("functions.h") + source("narrow.h")
}

// Source returns the text of a program with the given kernels, whose names have to differ. Its order is theirs. In OpenCL,
// whose buffers are no addresses, every pointer among the parameters is followed by an i64: by how many elements what is
// meant lies behind the buffer's start.
func Source(l Language, kernels ...*Kernel) string {
	var b strings.Builder
	b.WriteString(l.prelude())
	if slices.ContainsFunc(kernels, func(k *Kernel) bool { return k.Double }) {
		b.WriteString(source("double.h") + doubled(source("functions.h")))
	}
	for _, k := range kernels {
		k.write(&b, l)
	}
	if l == Fibres {
		b.WriteString("\nstatic const kernel_entry kernel_table[] = {\n")
		for _, k := range kernels {
			fmt.Fprintf(&b, "\t{%q, call_%s, %d, %d, %d},\n", k.Name, k.Name, k.Threads, k.Arena, flag(k.Waits))
		}
		b.WriteString("};\n")
		b.WriteString(source("runtime.h"))
	}
	return b.String()
}

var defined = regexp.MustCompile(`(?m)^#define (\w+)`)

// write appends the kernel, and takes back every macro that it defines, so that another may follow.
func (k *Kernel) write(b *strings.Builder, l Language) {
	var text strings.Builder
	fmt.Fprintf(&text, "\n#define ARENA_BYTES %d\n#define THREADS %d\n", max(k.Arena, 1), k.Threads)
	for _, d := range k.Defines {
		fmt.Fprintf(&text, "#define %s %s\n", d.Name, d.Value)
	}
	for _, f := range k.Files {
		text.WriteString(source(f))
	}
	text.WriteString(k.Support)
	if k.Blocks > 0 {
		fmt.Fprintf(&text, "\nKERNEL_BLOCKS(%d, %d) %s(%s)\n", k.Threads, k.Blocks, k.Name, k.signature(l))
	} else {
		fmt.Fprintf(&text, "\nKERNEL(%d) %s(%s)\n", k.Threads, k.Name, k.signature(l))
	}
	text.WriteString(k.body(l))
	b.WriteString(text.String())
	var names []string
	for _, m := range defined.FindAllStringSubmatch(text.String(), -1) {
		if !slices.Contains(names, m[1]) {
			names = append(names, m[1])
		}
	}
	b.WriteString("\n")
	for _, n := range names {
		fmt.Fprintf(b, "#undef %s\n", n)
	}
	if l == Fibres {
		k.writeCall(b)
	}
}

func (k *Kernel) signature(l Language) string {
	var parts []string
	for i, p := range k.Params {
		if i > 0 && l == OpenCL && !k.Params[i-1].Scalar {
			parts = append(parts, "const i64 "+k.Params[i-1].Name+"_offset")
		}
		switch {
		case p.Scalar:
			parts = append(parts, fmt.Sprintf("const %s %s", p.Type, p.Name))
		case p.Written:
			parts = append(parts, fmt.Sprintf("GLOBAL %s *RESTRICT %s", p.Type.storage(), p.Name))
		default:
			parts = append(parts, fmt.Sprintf("const GLOBAL %s *RESTRICT %s", p.Type.storage(), p.Name))
		}
	}
	if n := len(k.Params); n > 0 && l == OpenCL && !k.Params[n-1].Scalar {
		parts = append(parts, "const i64 "+k.Params[n-1].Name+"_offset")
	}
	return strings.Join(parts, ", ")
}

// body returns the block of the function, which begins by adding their offsets to pointers where there are some.
func (k *Kernel) body(l Language) string {
	if l != OpenCL {
		return k.Body
	}
	var add strings.Builder
	for _, p := range k.Params {
		if !p.Scalar {
			fmt.Fprintf(&add, "\t%s += %s_offset;\n", p.Name, p.Name)
		}
	}
	at := strings.Index("\n"+k.Body, "\n{") + 1 // behind the comment that a template may begin with
	return k.Body[:at] + "\n" + add.String() + k.Body[at:]
}

// writeCall appends the function by which the fibre runtime calls the kernel: as drivers do, with pointers to values.
func (k *Kernel) writeCall(b *strings.Builder) {
	fmt.Fprintf(b, "static void call_%s(void **params) {\n\t%s(", k.Name, k.Name)
	for i, p := range k.Params {
		if i > 0 {
			b.WriteString(", ")
		}
		if p.Scalar {
			fmt.Fprintf(b, "*(%s *)params[%d]", p.Type, i)
		} else {
			fmt.Fprintf(b, "*(%s **)params[%d]", p.Type.storage(), i)
		}
	}
	b.WriteString(");\n}\n")
}
