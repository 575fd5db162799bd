package drill

import (
	"os/exec"
	"path/filepath"
)

// Two of the four workers are in Python and two in Node, of one group and with the same job.

// inNode says whether a pair's worker is the one in Node.
func inNode(pair int) bool { return pair%2 == 0 }

// workerCommand starts a pair's worker.
func (l *lab) workerCommand(p *pair) *exec.Cmd {
	cmd := exec.Command(l.python, filepath.Join(l.checkout, "internal", "drill", "testdata", "worker.py"))
	if inNode(p.n) {
		cmd = exec.Command(l.node, "--enable-source-maps", filepath.Join(l.checkout, "clients", "node", "build", "drilled", "drill", "worker.js"))
	}
	cmd.Env = environ("PILLION_URL=unix:"+p.socket, "PILLION_TOKEN_FILE="+filepath.Join(p.dir, "token"),
		"DRILL_IN="+l.in, "DRILL_REF="+l.ref, "DRILL_OUT="+l.out, "DRILL_STATE="+p.dir,
		"DRILL_FULL="+p.ask("full"), "LD_PRELOAD="+l.preload, "PYTHONUNBUFFERED=1")
	return cmd
}
