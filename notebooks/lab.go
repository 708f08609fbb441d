package main

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
)

// tour is the lesson that JupyterLab opens on.
const tour = "notebooks/00-tour.ipynb"

// openLab hands the terminal over to JupyterLab: from here Ctrl-C is its own (twice stops it).
func openLab(p places, cmd command) error {
	args := append([]string{"-m", "jupyterlab"}, labArgs(p, cmd)...)
	return become(p.python, args, p.environ())
}

func labArgs(p places, cmd command) []string {
	static, _ := json.Marshal([]string{p.static}) // a list of one string always encodes
	args := []string{
		"--ServerApp.root_dir=" + p.root,
		"--ServerApp.extra_static_paths=" + string(static),
	}
	if _, err := os.Stat(filepath.Join(p.root, tour)); err == nil {
		args = append(args, "--LabApp.default_url=/lab/tree/"+tour)
	}
	if os.Geteuid() == 0 { // a container: Jupyter refuses root unless told
		args = append(args, "--allow-root")
	}
	if cmd.noBrowser {
		args = append(args, "--no-browser")
	}
	if cmd.port != 0 {
		args = append(args, fmt.Sprintf("--ServerApp.port=%d", cmd.port), "--ServerApp.port_retries=0")
	}
	return args
}

// portFree reports a port that another program holds, before the set-up begins; 0 lets Jupyter choose.
func portFree(port int) error {
	if port == 0 {
		return nil
	}
	l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return fmt.Errorf("port %d is taken: give another with -port, or none to let JupyterLab choose", port)
	}
	return l.Close()
}
