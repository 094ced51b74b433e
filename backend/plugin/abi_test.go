package plugin

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"unsafe"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// structs are those of the header with the Go types that mirror them.
var structs = map[string]any{
	"carve_str": cStr{}, "carve_error": cError{}, "carve_format": cFormat{}, "carve_tensor": cTensor{}, "carve_value": cValue{},
	"carve_attr": cAttr{}, "carve_node": cNode{}, "carve_graph": cGraph{}, "carve_processor": cProcessor{}, "carve_op": cOp{},
	"carve_port_format": cPortFormat{}, "carve_formats": cFormats{}, "carve_signature": cSignature{}, "carve_support": cSupport{},
	"carve_claim": cClaim{}, "carve_claims": cClaims{}, "carve_options": cOptions{}, "carve_binding": cBinding{}, "carve_port": cPort{},
	"carve_buffer": cBuffer{}, "carve_inplace": cInPlace{}, "carve_constant_form": cConstantForm{}, "carve_label": cLabel{},
	"carve_requirements": cRequirements{}, "carve_run": cRun{}, "carve_mem": cMem{}, "carve_copy": cCopy{},
	"carve_converter": cConverter{}, "carve_live": cLive{}, "carve_dim": cDim{}, "carve_result": cResult{}, "carve_operator": cOperator{}, "carve_onnx": cONNX{}, "carve_saved": cSaved{}, "carve_property": cProperty{}, "carve_pass": cPass{},
	"carve_host": cHost{}, "carve_plugin": cTable{}, "carve_query": cQuery{},
}

// members are names in C that are words of Go.
var members = map[string]string{
	"typ": "type", "select_": "select",
}

// cName is the name of a member in C.
func cName(field string) string {
	if n, ok := members[field]; ok {
		return n
	}
	var b strings.Builder
	for i, r := range field {
		upper := r >= 'A' && r <= 'Z'
		if upper && i > 0 && !(field[i-1] >= 'A' && field[i-1] <= 'Z') {
			b.WriteByte('_')
		}
		b.WriteString(strings.ToLower(string(r)))
	}
	return b.String()
}

var _ = Describe("the header", func() {
	It("has the sizes and offsets of the Go structs", func(ctx SpecContext) {
		gcc, err := exec.LookPath("gcc")
		if err != nil {
			Skip("there is no C compiler")
		}
		var src strings.Builder
		src.WriteString("#include <stddef.h>\n#include <stdio.h>\n#include \"carve_plugin.h\"\nint main(void) {\n")
		want := map[string]uintptr{}
		for name, v := range structs {
			t := reflect.TypeOf(v)
			fmt.Fprintf(&src, "printf(\"%s %%zu\\n\", sizeof(%s));\n", name, name)
			want[name] = t.Size()
			for i := range t.NumField() {
				f := t.Field(i)
				if f.Name == "_" {
					continue
				}
				at := name + "." + cName(f.Name)
				fmt.Fprintf(&src, "printf(\"%s %%zu\\n\", offsetof(%s, %s));\n", at, name, cName(f.Name))
				want[at] = f.Offset
			}
		}
		src.WriteString("return 0;\n}\n")
		dir := GinkgoT().TempDir()
		file, program := filepath.Join(dir, "abi.c"), filepath.Join(dir, "abi")
		Expect(os.WriteFile(file, []byte(src.String()), 0o600)).To(Succeed())
		out, err := exec.CommandContext(ctx, gcc, "-I", ".", "-o", program, file).CombinedOutput()
		Expect(err).NotTo(HaveOccurred(), string(out))
		out, err = exec.CommandContext(ctx, program).Output()
		Expect(err).NotTo(HaveOccurred())
		got := map[string]uintptr{}
		for line := range strings.Lines(string(out)) {
			var name string
			var n uintptr
			Expect(fmt.Sscan(line, &name, &n)).Error().NotTo(HaveOccurred())
			got[name] = n
		}
		Expect(got).To(Equal(want))
	})

	It("has the functions that errors and other processes call by name and number", func() {
		var t cTable
		for i, at := range t.entries() {
			Expect(at).To(BeZero())
			t.entries()[i] = firstFunction + uintptr(i)
		}
		v := reflect.ValueOf(t)
		named := 0
		for i := range v.NumField() {
			f := v.Type().Field(i)
			if n := int(f.Offset/8) - int(firstFunction); n >= 0 && n < len(functions) {
				Expect(functions[n]).To(Equal(cName(f.Name)))
				named++
			}
		}
		Expect(named).To(Equal(len(functions)))
		o, p, pass := &cOperator{}, &cProperty{}, &cPass{}
		for at, slots := range map[any][]slot{o: o.slots(), p: p.slots(), pass: pass.slots()} {
			v := reflect.ValueOf(at).Elem()
			for _, x := range slots {
				found := ""
				for i := range v.NumField() {
					if v.Field(i).Addr().UnsafePointer() == unsafe.Pointer(x.at) {
						found = cName(v.Type().Field(i).Name)
					}
				}
				Expect(found).To(Equal(memberNames[x.member]))
			}
		}
	})

	DescribeTable("compiles without warnings", func(ctx SpecContext, compiler string, args ...string) {
		path, err := exec.LookPath(compiler)
		if err != nil {
			Skip("there is no " + compiler)
		}
		args = append(args, "-Wall", "-Wextra", "-Wpadded", "-Wpedantic", "-Werror", "-fsyntax-only", "-include", "carve_plugin.h", os.DevNull)
		out, err := exec.CommandContext(ctx, path, args...).CombinedOutput()
		Expect(err).NotTo(HaveOccurred(), string(out))
	},
		Entry("as C99", "gcc", "-std=c99", "-x", "c"),
		Entry("as C11", "gcc", "-std=c11", "-x", "c"),
		Entry("as C++11", "g++", "-std=c++11", "-x", "c++"),
		Entry("as C++20", "g++", "-std=c++20", "-x", "c++"),
	)
})
