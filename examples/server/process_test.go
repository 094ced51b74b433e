package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/carve-dev/carve/examples/server/oipgrpc"
	"github.com/carve-dev/carve/examples/server/rest"
)

// asServer is set in the environment of processes that are the command.
const asServer = "CARVE_TEST_AS_SERVER"

// process is the command in a process of its own.
type process struct {
	*exec.Cmd
	addresses map[string]string // by port
	log       *bytes.Buffer
	over      chan error
}

// loggedAddress is an address in the line that says that the server is ready.
var loggedAddress = regexp.MustCompile(`(http|grpc|metrics)=(\S+)`)

// spawned starts the command in a process of its own, and waits until it is ready. Ports are free ones where args name none.
func spawned(args ...string) *process {
	GinkgoHelper()
	self, err := os.Executable()
	Expect(err).NotTo(HaveOccurred())
	return spawn(exec.Command(self), args...)
}

// usual are a server's arguments: free ports, and time for what a busy machine takes, where specs say nothing else.
var usual = []string{"-http", "127.0.0.1:0", "-grpc", "127.0.0.1:0", "-metrics", "127.0.0.1:0", "-body-timeout", "10m"}

// spawn is spawned for another command that runs a server.
func spawn(c *exec.Cmd, args ...string) *process {
	GinkgoHelper()
	c.Env = append(os.Environ(), c.Env...)
	c.Env = append(c.Env, asServer+"=1")
	c.Args = append(append(c.Args, usual...), args...)
	p := &process{Cmd: c, addresses: map[string]string{}, log: &bytes.Buffer{}, over: make(chan error, 1)}
	lines, err := c.StderrPipe()
	Expect(err).NotTo(HaveOccurred())
	Expect(c.Start()).To(Succeed())
	DeferCleanup(p.kill)
	from := bufio.NewReader(io.TeeReader(lines, p.log))
	for len(p.addresses) == 0 {
		line, err := from.ReadString('\n')
		Expect(err).NotTo(HaveOccurred(), "the server is not ready: "+p.log.String())
		if strings.Contains(line, "msg=ready") {
			for _, m := range loggedAddress.FindAllStringSubmatch(line, -1) {
				p.addresses[m[1]] = m[2]
			}
		}
	}
	go func() {
		_, _ = io.Copy(io.Discard, from) // the log is whole when it ends
		p.over <- c.Wait()
	}()
	return p
}

// kill ends the process by SIGKILL, and waits until it is gone.
func (p *process) kill() {
	if p.over == nil {
		return
	}
	_ = p.Process.Kill()
	<-p.over
	p.over = nil
}

// ended waits until the process has ended by itself, and returns how.
func (p *process) ended() error {
	GinkgoHelper()
	var how []error
	Eventually(func() int {
		select {
		case err := <-p.over:
			how = append(how, err)
		default:
		}
		return len(how)
	}).Should(Equal(1), "the process goes on")
	p.over = nil
	return how[0]
}

// askers are clients of all forms. They outlive the process.
func (p *process) askers() map[string]asker {
	GinkgoHelper()
	out := map[string]asker{"HTTP": &rest.Client{Base: "http://" + p.addresses["http"], HTTP: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}}}
	for form, port := range map[string]string{"gRPC": "grpc", "gRPC on HTTP's port": "http"} {
		conn, err := grpc.NewClient(p.addresses[port], grpc.WithTransportCredentials(insecure.NewCredentials()))
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(conn.Close)
		out[form] = oipgrpc.NewClient(conn)
	}
	return out
}

// post makes a request over HTTP, and returns status and body.
func (p *process) post(path, body string) (int, string) {
	GinkgoHelper()
	a, err := http.Post("http://"+p.addresses["http"]+path, "application/json", strings.NewReader(body))
	Expect(err).NotTo(HaveOccurred())
	defer a.Body.Close()
	b, err := io.ReadAll(a.Body)
	Expect(err).NotTo(HaveOccurred())
	return a.StatusCode, string(b)
}

// resident returns the bytes of the process in memory; the spec is skipped where the system does not tell.
func (p *process) resident() int64 {
	GinkgoHelper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.Process.Pid))
	if err != nil {
		Skip("the system does not tell how much memory a process has")
	}
	_, rest, _ := strings.Cut(string(text), "VmRSS:")
	n, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
	Expect(err).NotTo(HaveOccurred())
	return n << 10
}

// files returns how many files the process has open; the spec is skipped where the system does not tell.
func (p *process) files() int {
	GinkgoHelper()
	list, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", p.Process.Pid))
	if err != nil {
		Skip("the system does not tell which files a process has open")
	}
	return len(list)
}
