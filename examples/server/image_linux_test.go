package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/examples/server/internal/modeltest"
)

// The image that the Dockerfile describes, without a container: its build's command, and its program in a root that has nothing else,
// as the Dockerfile's user.
var _ = Describe("the image", Label("manifests"), func() {
	It("has a program that needs nothing beside it", func(ctx SpecContext) {
		text, err := os.ReadFile("deploy/Dockerfile")
		Expect(err).NotTo(HaveOccurred())
		build := regexp.MustCompile(`(?m)^RUN (CGO_ENABLED=0 go build .*) -o /carve-server \.$`).FindStringSubmatch(string(text))
		Expect(build).NotTo(BeNil())
		Expect(string(text)).To(And(ContainSubstring("USER 65532:65532"), ContainSubstring(`ENTRYPOINT ["/carve-server"]`), ContainSubstring(`CMD ["--models", "/models"]`)))

		root, err := os.MkdirTemp("", "image") // ginkgo's own are below folders that other users may not enter
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(os.RemoveAll, root)
		Expect(os.Chmod(root, 0o755)).To(Succeed()) // another user's root
		c := exec.CommandContext(ctx, "sh", "-c", build[1]+" -o "+filepath.Join(root, "carve-server")+" .")
		c.Dir = "../.."
		out, err := c.CombinedOutput()
		Expect(err).NotTo(HaveOccurred(), string(out))
		Expect(modeltest.Write(filepath.Join(root, "models"), "echo_fp32", 1, modeltest.Echo("f32"))).To(Succeed())
		Expect(os.Chmod(filepath.Join(root, "models/echo_fp32/1/model.onnx"), 0o644)).To(Succeed()) // another user's file

		isolated := func(args ...string) *exec.Cmd {
			c := exec.CommandContext(ctx, "/carve-server", args...)
			c.Dir = "/"
			c.SysProcAttr = &syscall.SysProcAttr{Chroot: root, Credential: &syscall.Credential{Uid: 65532, Gid: 65532}}
			return c
		}
		if out, err := isolated("-help").CombinedOutput(); err != nil && !strings.Contains(string(out), "-models") {
			Skip("a process cannot have another root here: " + err.Error())
		}
		p := spawn(isolated("--models", "/models"))
		for form, c := range p.askers() {
			Expect(echoes(ctx, c, "echo_fp32", 1, 2, 3)).To(Succeed(), form)
		}
		Expect(p.Process.Signal(syscall.SIGTERM)).To(Succeed())
		Expect(<-p.over).NotTo(HaveOccurred(), "SIGTERM ends it in order")
		p.over = nil
		left, err := os.ReadDir(root)
		Expect(err).NotTo(HaveOccurred())
		Expect(left).To(HaveLen(2), "the program and the models")
	})
})
