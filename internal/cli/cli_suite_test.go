package cli_test

import (
	"bytes"
	"context"
	"os"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/internal/cli"
)

func TestMain(m *testing.M) {
	cli.HostPlugin() // specs run plugins in processes of this program
	os.Exit(m.Run())
}

func TestCLI(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "cli")
}

// result is what a run of the tool did.
type result struct {
	code           int
	stdout, stderr string
}

// carve runs the tool.
func carve(ctx context.Context, args ...string) result {
	GinkgoHelper()
	var stdout, stderr bytes.Buffer
	code := cli.Run(ctx, args, &stdout, &stderr)
	return result{code, stdout.String(), stderr.String()}
}

// succeeds runs the tool, which must exit with 0.
func succeeds(ctx context.Context, args ...string) result {
	GinkgoHelper()
	r := carve(ctx, args...)
	Expect(r.code).To(Equal(cli.ExitOK), r.stderr)
	return r
}

// fails runs the tool, which must exit with 1 and one line on stderr.
func fails(ctx context.Context, args ...string) string {
	GinkgoHelper()
	r := carve(ctx, args...)
	Expect(r.code).To(Equal(cli.ExitError), r.stdout)
	Expect(r.stderr).To(MatchRegexp(`\Acarve: [^\n]+\n\z`))
	Expect(r.stdout).To(BeEmpty())
	return r.stderr
}
