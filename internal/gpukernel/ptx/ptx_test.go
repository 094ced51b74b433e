package ptx_test

import (
	"crypto/sha256"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/internal/gpukernel"
	"github.com/carve-dev/carve/internal/gpukernel/nvrtc"
	"github.com/carve-dev/carve/internal/gpukernel/ptx"
)

var (
	compilerPath  = flag.String("nvrtc", "", "path of NVIDIA's libnvrtc of CUDA 11.8; empty: the loader searches")
	assemblerPath = flag.String("ptxas", "ptxas", "NVIDIA's assembler")
)

var _ = Describe("The texts", func() {
	It("were made from the kernels as they are", func() {
		for _, a := range ptx.Architectures() {
			Expect(ptx.Made(a)).To(Equal(ptx.Digest(gpukernel.Source(gpukernel.CUDA, gpukernel.Prebuilt()...))),
				"the kernels have changed: run internal/gpukernel/ptx/write")
		}
	})

	It("have every kernel, with its parameters, for each capability that they serve", func() {
		for capability, architecture := range map[int]int{75: 75, 80: 80, 86: 80, 89: 80, 90: 80, 120: 80} {
			for _, k := range gpukernel.Prebuilt() {
				text, ok := ptx.Text(capability, k.Name)
				Expect(ok).To(BeTrue(), k.Name)
				Expect(text).To(HaveSuffix("\x00"))
				Expect(strings.Count(string(text), "\x00")).To(Equal(1))
				Expect(string(text)).To(MatchRegexp(`\.version 7\.8\n\.target sm_%d\n`, architecture))
				Expect(string(text)).To(ContainSubstring(".maxntid %d, 1, 1", k.Threads))
				params := regexp.MustCompile(`(?m)^\s*\.param (\S+) (?:\d+ \.b8 )?`+k.Name+`_param_(\d+)`).FindAllStringSubmatch(string(text), -1)
				Expect(params).To(HaveLen(len(k.Params)), k.Name)
				for i, p := range k.Params {
					want := ".u64"
					switch {
					case p.Scalar && p.Type == gpukernel.I32:
						want = ".u32"
					case p.Type == "program_t":
						want = ".align"
					}
					Expect(params[i][1]).To(Equal(want), "%s: %s", k.Name, p.Name)
				}
			}
		}
		_, ok := ptx.Text(70, "interpret_rows")
		Expect(ok).To(BeFalse())
		_, ok = ptx.Text(90, "interpret")
		Expect(ok).To(BeFalse())
	})

	It("are what the generator writes", Label("nvrtc"), func() {
		lib, err := nvrtc.Open(*compilerPath)
		if err != nil {
			Skip(err.Error())
		}
		if lib.Major != 11 || lib.Minor != 8 {
			Skip(fmt.Sprintf("NVRTC 11.8 wrote them, and this is %d.%d", lib.Major, lib.Minor))
		}
		for _, a := range ptx.Architectures() {
			var texts [][]byte
			for _, k := range gpukernel.Prebuilt() {
				text, err := lib.Text(gpukernel.Source(gpukernel.CUDA, k), fmt.Sprintf("compute_%d", a))
				Expect(err).NotTo(HaveOccurred())
				texts = append(texts, text)
			}
			Expect(sha256.Sum256(ptx.Join(texts))).To(Equal(sha256.Sum256(ptx.All(a))), "compute_%d", a)
		}
	})

	It("are assembled without spills", Label("nvrtc"), func(ctx SpecContext) {
		path, err := exec.LookPath(*assemblerPath)
		if err != nil {
			Skip(err.Error())
		}
		var lines []string
		for _, capability := range []int{75, 80, 86, 89, 90} {
			for _, k := range gpukernel.Prebuilt() {
				text, _ := ptx.Text(capability, k.Name)
				file := filepath.Join(GinkgoT().TempDir(), "k.ptx")
				Expect(os.WriteFile(file, text[:len(text)-1], 0o600)).To(Succeed())
				said, err := exec.CommandContext(ctx, path, "-v", fmt.Sprintf("-arch=sm_%d", capability), "-o", file+".cubin", file).CombinedOutput()
				Expect(err).NotTo(HaveOccurred(), string(said))
				list := nvrtc.ParseResources(string(said))
				Expect(list).To(HaveLen(1), string(said))
				r := list[0]
				Expect([]int{r.SpillStores, r.SpillLoads, r.Stack}).To(Equal([]int{0, 0, 0}), "%s for %d", k.Name, capability)
				Expect(r.Registers*k.Threads*max(k.Blocks, 1)).To(BeNumerically("<=", 65536), k.Name)
				lines = append(lines, fmt.Sprintf("%d %-30s %3d registers", capability, k.Name, r.Registers))
			}
		}
		AddReportEntry("registers", strings.Join(lines, "\n"))
	})
})
