package asm_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/internal/kernel/asm"
)

// mixed writes a function with every kind of argument, a table, loops, bytes and a result.
func mixed(f *asm.File) {
	table := f.Data("ones", 0x3f800000, 0x3f800000)
	fn := f.Func("mixed", "mixed adds n to what it finds.\nIt is a test.",
		asm.Ptr("x"), asm.Float("s"), asm.Typed("flag", "uint8"), asm.Typed("h", "uint16"), asm.Int("n"), asm.Typed("v", "[]float32"))
	fn.Result("sum", "int")
	fn.Load("x", "AX")
	fn.Load("n", "CX")
	fn.Load("flag", "BX")
	fn.Load("h", "DX")
	fn.Load("v_base", "SI")
	fn.Load("v_len", "DI")
	fn.I("VBROADCASTSS %s, Y0", fn.Addr("s"))
	fn.I("VBROADCASTSS %s, Y1", table)
	fn.While("CX", 4, func() { fn.I("ADDQ $16, AX") })
	fn.I("INCQ CX")
	fn.Loop("CX", func() { fn.Bytes(0x90) })
	fn.I("MOVQ CX, %s", fn.Addr("sum"))
	fn.Ret()
}

// narrow is mixed for arm64.
func narrow(f *asm.File) {
	fn := f.Func("narrow", "narrow does nothing useful.", asm.Ptr("x"), asm.Typed("flag", "uint8"), asm.Typed("h", "int32"), asm.Int("n"))
	fn.Load("x", "R0")
	fn.Load("flag", "R1")
	fn.Load("h", "R2")
	fn.Load("n", "R3")
	fn.While("R3", 4, func() { fn.I("FMOVQ.P 16(R0), F3") })
	fn.I("ADD $1, R3")
	fn.Loop("R3", func() {
		fn.VLane("fmla.4s", 2, 3, 31, 3)
		fn.V("fadd.4s", 2, 3, 4)
		fn.V("fmax.4s", 2, 3, 4)
		fn.V("fmin.4s", 2, 3, 4)
	})
	fn.Ret()
}

var _ = Describe("File", func() {
	It("lays out arguments as Go does", func() {
		f := asm.New("p", "amd64")
		mixed(f)
		text := string(f.Text())
		for _, want := range []string{
			"TEXT ·mixed(SB), NOSPLIT, $0-56\n", "MOVQ x+0(FP), AX", "VBROADCASTSS s+8(FP), Y0", "MOVBQZX flag+12(FP), BX",
			"MOVWQZX h+14(FP), DX", "MOVQ n+16(FP), CX", "MOVQ v_base+24(FP), SI", "MOVQ v_len+32(FP), DI",
			"MOVQ CX, sum+48(FP)", "VZEROUPPER\n\tRET", "DATA ones<>+4(SB)/4, $0x3f800000", "GLOBL ones<>(SB), RODATA|NOPTR, $8", "BYTE $0x90",
		} {
			Expect(text).To(ContainSubstring(want))
		}
		Expect(string(f.Decl())).To(ContainSubstring(
			"// It is a test.\n//\n//go:noescape\nfunc mixed(x *float32, s float32, flag uint8, h uint16, n int, v []float32) (sum int)\n"))
	})

	It("ends the arguments where the last one ends, as go vet wants it", func() {
		f := asm.New("p", "amd64")
		f.Func("f", "f does nothing.", asm.Ptr("x"), asm.Float("s")).Ret()
		Expect(string(f.Text())).To(ContainSubstring("$0-12\n"))
	})

	It("omits VZEROUPPER where no wide register was used", func() {
		f := asm.New("p", "amd64")
		f.Func("f", "f does nothing.").Ret()
		Expect(string(f.Text())).NotTo(ContainSubstring("VZEROUPPER"))
	})

	DescribeTable("writes what the assembler and go vet accept", func(arch string, write func(*asm.File)) {
		goCmd, err := exec.LookPath("go")
		if err != nil {
			Skip("no go command")
		}
		dir := GinkgoT().TempDir()
		f := asm.New("p", arch)
		write(f)
		Expect(f.Write(dir, "k")).To(Succeed())
		Expect(os.WriteFile(filepath.Join(dir, "go.mod"), []byte("module p\n"), 0o644)).To(Succeed())
		for _, verb := range []string{"vet", "build"} {
			cmd := exec.Command(goCmd, verb, ".")
			cmd.Dir, cmd.Env = dir, append(os.Environ(), "GOOS=linux", "GOARCH="+arch, "CGO_ENABLED=0", "GOFLAGS=-mod=mod -trimpath")
			out, err := cmd.CombinedOutput()
			Expect(err).NotTo(HaveOccurred(), string(out))
		}
	},
		Entry(nil, "amd64", mixed),
		Entry(nil, "arm64", narrow),
	)

	It("counts, loads and encodes for arm64", func() {
		f := asm.New("p", "arm64")
		narrow(f)
		text := string(f.Text())
		for _, want := range []string{
			"TEXT ·narrow(SB), NOSPLIT, $0-24\n", "MOVD x+0(FP), R0", "MOVBU flag+8(FP), R1", "MOVW h+12(FP), R2", "MOVD n+16(FP), R3",
			"SUBS $4, R3, R3\n\tBLT done2", "SUBS $4, R3, R3\n\tBGE loop1\n\ndone2:\n\tADD $4, R3, R3", "SUBS $1, R3, R3\n\tBNE loop3",
			"WORD $0x4fbf1862", "WORD $0x4e24d462", "WORD $0x4e24f462", "WORD $0x4ea4f462", "\tRET\n",
		} {
			Expect(text).To(ContainSubstring(want))
		}
		Expect(text).NotTo(ContainSubstring("VZEROUPPER"))
	})

	DescribeTable("panics on misuse", func(use func(f *asm.File)) {
		Expect(func() { use(asm.New("p", "amd64")) }).To(Panic())
	},
		Entry("unknown architecture", func(*asm.File) { asm.New("p", "mips") }),
		Entry("unknown argument", func(f *asm.File) { f.Func("f", "f.").Load("x", "AX") }),
		Entry("unknown type", func(f *asm.File) { f.Func("f", "f.", asm.Typed("x", "chan int")).Load("x", "AX") }),
		Entry("function twice", func(f *asm.File) { f.Func("f", "f."); f.Func("f", "f.") }),
		Entry("label twice", func(f *asm.File) { fn := f.Func("f", "f."); fn.Label("a"); fn.Label("a") }),
		Entry("table changed", func(f *asm.File) { f.Data("t", 1); f.Data("t", 2) }),
	)
})

var _ = Describe("Verify", func() {
	It("names a kernel that nobody calls", func() {
		dir := GinkgoT().TempDir()
		write := func(name, text string) {
			Expect(os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600)).To(Succeed())
		}
		write("gen.go", "//go:build ignore\n\npackage main\n\nfunc other32() {}\n\nfunc main() { other32() }\n")
		write("decl_amd64.go", "package p\n\n// one16 is called, other32 not.\nfunc one16()\n\nfunc other32()\n")
		write("dispatch_amd64.go", "package p\n\nfunc do(n int) {\n\tif n <= 16 {\n\t\tone16()\n\t}\n\tone16()\n}\n")
		Expect(asm.Called(dir)).To(MatchError(ContainSubstring("other32 is called by nobody")))
		write("dispatch_amd64.go", "package p\n\nfunc do(n int) {\n\tif n <= 16 {\n\t\tone16()\n\t}\n\tother32()\n}\n")
		Expect(asm.Called(dir)).To(Succeed())
	})

	It("says that a generator is missing", func() {
		Expect(asm.Verify(context.Background(), "no_such_generator.go")).To(MatchError(ContainSubstring("no_such_generator.go")))
	})
})

var _ = Describe("ISA", func() {
	It("names registers and sizes", func() {
		Expect([]string{asm.AVX2().R(2), asm.AVX512().R(31), asm.NEON().R(31), asm.X(1), asm.Y(2), asm.Z(3), asm.K(3)}).To(
			Equal([]string{"Y2", "Z31", "V31", "X1", "Y2", "Z3", "K3"}))
		Expect([]int{asm.NEON().Size(), asm.AVX2().Size(), asm.AVX512().Size()}).To(Equal([]int{16, 32, 64}))
		Expect([]string{asm.AVX512().Mask(), asm.AVX2().Mask()}).To(Equal([]string{"K1", "Y15"}))
		Expect(func() { asm.AVX2().R(16) }).To(Panic())
	})

	It("clears, reads and writes vectors as each set does", func() {
		body := func(v asm.ISA, write func(fn *asm.Func)) string {
			f := asm.New("p", v.Arch)
			write(f.Func("x", "x is a test."))
			return string(f.Text())
		}
		moves := func(v asm.ISA) string {
			return body(v, func(fn *asm.Func) {
				fn.Clear(v, v.R(0))
				fn.LoadVector(v, "(AX)", v.R(0), "")
				fn.LoadVector(v, "(AX)", v.R(0), v.Mask())
				fn.StoreVector(v, v.R(0), "(AX)", "")
				fn.StoreVector(v, v.R(0), "(AX)", v.Mask())
			})
		}
		Expect(moves(asm.AVX512())).To(ContainSubstring(`
	VPXORD Z0, Z0, Z0
	VMOVUPS (AX), Z0
	VMOVUPS.Z (AX), K1, Z0
	VMOVUPS Z0, (AX)
	VMOVUPS Z0, K1, (AX)
`))
		Expect(moves(asm.AVX2())).To(ContainSubstring(`
	VXORPS Y0, Y0, Y0
	VMOVUPS (AX), Y0
	VMASKMOVPS (AX), Y15, Y0
	VMOVUPS Y0, (AX)
	VMASKMOVPS Y0, Y15, (AX)
`))
		Expect(body(asm.NEON(), func(fn *asm.Func) { fn.Clear(asm.NEON(), "V3") })).To(ContainSubstring("\tVEOR V3.B16, V3.B16, V3.B16\n"))
		Expect(func() { moves(asm.NEON()) }).To(Panic())
	})
})

var _ = Describe("Dispatch", func() {
	table := asm.Table{Imports: []string{"unsafe"}, Entries: []asm.Entry{
		{Name: "scale", Doc: "scales n floats.", Params: "x *float32, n int", Portable: "portableScale(x, n)"},
		{Name: "side", Doc: "returns a side.", Result: "int", Portable: "return 4"},
		{Name: "apply", Doc: "applies op.", Params: "op int, x unsafe.Pointer", Portable: "portableApply(op, x)", Declines: true},
	}}

	It("asks the sets that were generated, and portable code for the others", func() {
		f := asm.New("p", "amd64")
		f.Serve("scale", asm.AVX512(), "scale512(x, n)")
		f.Serve("scale", asm.AVX2(), "scale256(x, n)")
		f.Serve("side", asm.AVX2(), "return 8")
		f.Serve("apply", asm.AVX2(), "apply256(op, x)")
		files := asm.Dispatch("p", table, f)
		Expect(files).To(HaveLen(2))
		Expect(files["dispatch_amd64.go"]).To(ContainSubstring(`
// scale scales n floats.
func scale(set isa.Set, x *float32, n int) {
	switch set {
	case isa.AVX512:
		scale512(x, n)
	case isa.AVX2:
		scale256(x, n)
	default:
		portableScale(x, n)
	}
}

// side returns a side.
func side(set isa.Set) int {
	switch set {
	case isa.AVX2:
		return 8
	}
	return 4
}

// apply applies op.
func apply(set isa.Set, op int, x unsafe.Pointer) {
	switch set {
	case isa.AVX2:
		if apply256(op, x) {
			return
		}
	}
	portableApply(op, x)
}
`))
		Expect(files["dispatch_other.go"]).To(And(ContainSubstring("//go:build !amd64\n"), ContainSubstring("\treturn 4\n"), Not(ContainSubstring("case"))))
	})

	DescribeTable("panics on misuse", func(use func(f *asm.File)) {
		Expect(func() {
			f := asm.New("p", "amd64")
			use(f)
			asm.Dispatch("p", table, f)
		}).To(Panic())
	},
		Entry("no such entry", func(f *asm.File) { f.Serve("scales", asm.AVX2(), "scale256(x, n)") }),
		Entry("a set of another architecture", func(f *asm.File) { f.Serve("side", asm.NEON(), "return 4") }),
		Entry("two answers", func(f *asm.File) { f.Serve("side", asm.AVX2(), "return 8"); f.Serve("side", asm.AVX2(), "return 9") }),
		Entry("no Go", func(f *asm.File) { f.Serve("side", asm.AVX2(), "return )") }),
	)
})

var _ = Describe("Tiles", func() {
	It("are encoded as GNU as does, with a displacement", func() {
		f := asm.New("p", "amd64")
		fn := f.Func("tiles", "tiles does nothing useful.")
		fn.ConfigureTiles("DI")
		fn.ConfigureTiles("R9")
		fn.ReleaseTiles()
		fn.ClearTile(3)
		fn.LoadTile("R9", "SI", 4)
		fn.LoadTile("R12", "R8", 7)
		fn.LoadTile("BP", "R15", 0)
		fn.StoreTile(2, "R13", "R14")
		fn.MultiplyTiles(asm.SignedUnsigned, 4, 7, 1)
		fn.MultiplyTiles(asm.UnsignedSigned, 5, 6, 2)
		fn.MultiplyTiles(asm.BFloat16Tiles, 5, 6, 3)
		var got []string
		for line := range strings.Lines(string(f.Text())) {
			if line = strings.TrimSpace(line); strings.HasPrefix(line, "BYTE") {
				got = append(got, strings.ReplaceAll(strings.ReplaceAll(line, "BYTE $0x", ""), ";", ""))
			}
		}
		Expect(got).To(Equal([]string{"c4 e2 78 49 47 00", "c4 c2 78 49 41 00", "c4 e2 78 49 c0", "c4 e2 7b 49 d8", "c4 c2 7b 4b 64 31 00", "c4 82 7b 4b 7c 04 00",
			"c4 a2 7b 4b 44 3d 00", "c4 82 7a 4b 54 35 00", "c4 e2 42 5e cc", "c4 e2 49 5e d5", "c4 e2 4a 5c dd"}))
	})

	It("are refused where there are no such registers", func() {
		fn := asm.New("p", "amd64").Func("f", "f.")
		for _, use := range []func(){func() { fn.ClearTile(8) }, func() { fn.LoadTile("SP", "AX", 0) }, func() { fn.ConfigureTiles("R12") },
			func() { fn.LoadTile("AX", "X1", 0) }} {
			Expect(use).To(Panic())
		}
	})
})
