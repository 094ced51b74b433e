package asm_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"

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

	It("writes what the assembler and go vet accept", func() {
		goCmd, err := exec.LookPath("go")
		if err != nil {
			Skip("no go command")
		}
		dir := GinkgoT().TempDir()
		f := asm.New("p", "amd64")
		mixed(f)
		Expect(f.Write(dir, "k")).To(Succeed())
		Expect(os.WriteFile(filepath.Join(dir, "go.mod"), []byte("module p\n"), 0o644)).To(Succeed())
		cmd := exec.Command(goCmd, "vet", ".")
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "GOOS=linux", "GOARCH=amd64", "CGO_ENABLED=0", "GOFLAGS=-mod=mod")
		out, err := cmd.CombinedOutput()
		Expect(err).NotTo(HaveOccurred(), string(out))
	})

	DescribeTable("panics on misuse", func(use func(f *asm.File)) {
		Expect(func() { use(asm.New("p", "amd64")) }).To(Panic())
	},
		Entry("unknown argument", func(f *asm.File) { f.Func("f", "f.").Load("x", "AX") }),
		Entry("unknown type", func(f *asm.File) { f.Func("f", "f.", asm.Typed("x", "chan int")).Load("x", "AX") }),
		Entry("function twice", func(f *asm.File) { f.Func("f", "f."); f.Func("f", "f.") }),
		Entry("label twice", func(f *asm.File) { fn := f.Func("f", "f."); fn.Label("a"); fn.Label("a") }),
		Entry("table changed", func(f *asm.File) { f.Data("t", 1); f.Data("t", 2) }),
	)
})

var _ = Describe("Verify", func() {
	It("says that a generator is missing", func() {
		Expect(asm.Verify(context.Background(), "no_such_generator.go")).To(MatchError(ContainSubstring("no_such_generator.go")))
	})
})

var _ = Describe("Width", func() {
	It("names registers", func() {
		Expect([]string{asm.Width(4).R(1), asm.Width(8).R(2), asm.Width(16).R(31), asm.K(3)}).To(Equal([]string{"X1", "Y2", "Z31", "K3"}))
		Expect(asm.Width(16).Bytes()).To(Equal(64))
		Expect(func() { asm.Width(5).R(0) }).To(Panic())
	})
})
