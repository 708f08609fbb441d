package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// module is the name of this repository's Go module.
const module = "forwardpass"

// places says where everything lies. Only root and below is ever written.
type places struct {
	root      string // the repository
	home      string // root/.forwardpass, git-ignored
	venv      string // JupyterLab and what executes notebooks
	python    string // the venv's interpreter
	bin       string // gonb, goimports
	static    string // files that the page loads: ECharts, the explorer's WebAssembly
	stamps    string // what is set up, and for which versions
	models    string // real checkpoints
	goroot    string
	goversion string
}

func findPlaces(ctx context.Context) (places, error) {
	out, err := exec.CommandContext(ctx, "go", "env", "-json", "GOMOD", "GOROOT", "GOVERSION").Output()
	if err != nil {
		return places{}, fmt.Errorf("cannot ask go for its settings (%s): put Go's bin folder on PATH and try again", reason(err))
	}
	var env struct{ GOMOD, GOROOT, GOVERSION string }
	if err := json.Unmarshal(out, &env); err != nil {
		return places{}, fmt.Errorf("go env: %w", err)
	}
	root := filepath.Dir(env.GOMOD)
	mod, err := os.ReadFile(env.GOMOD)
	if err != nil || !strings.HasPrefix(string(mod), "module "+module+"\n") {
		return places{}, errors.New("run this inside the repository: cd to the folder that holds go.mod, then go run ./notebooks")
	}
	return placesAt(root, env.GOROOT, env.GOVERSION), nil
}

func placesAt(root, goroot, goversion string) places {
	home := filepath.Join(root, ".forwardpass")
	venv := filepath.Join(home, "venv")
	return places{
		root: root, home: home, venv: venv,
		python: filepath.Join(venv, "bin", "python"),
		bin:    filepath.Join(home, "bin"),
		static: filepath.Join(home, "static"),
		stamps: filepath.Join(home, "stamps"),
		models: filepath.Join(home, "models"),
		goroot: goroot, goversion: goversion,
	}
}

// environ is the environment of every Python program started here: Jupyter's files go into
// .forwardpass, and settings of the user's shell that would mix other Pythons in are left out.
func (p places) environ() []string {
	drop := map[string]bool{
		"PYTHONPATH": true, "PYTHONHOME": true, "PYTHONSTARTUP": true, "VIRTUAL_ENV": true, "CONDA_PREFIX": true,
		"PIP_USER": true, "PIP_TARGET": true, "PIP_PREFIX": true, "PIP_REQUIRE_VIRTUALENV": true,
		"JUPYTER_PATH": true, "JUPYTER_CONFIG_PATH": true, "JUPYTER_TOKEN": true,
		"JUPYTERLAB_DIR": true, "JUPYTERLAB_SETTINGS_DIR": true, "JUPYTERLAB_WORKSPACES_DIR": true,
	}
	jupyter := filepath.Join(p.home, "jupyter")
	var env []string
	for _, kv := range os.Environ() {
		name, _, _ := strings.Cut(kv, "=")
		if !drop[name] {
			env = append(env, kv)
		}
	}
	return append(env,
		"JUPYTER_CONFIG_DIR="+filepath.Join(jupyter, "config"),
		"JUPYTER_DATA_DIR="+filepath.Join(jupyter, "data"),
		"JUPYTER_RUNTIME_DIR="+filepath.Join(jupyter, "runtime"),
		"IPYTHONDIR="+filepath.Join(jupyter, "ipython"),
		"JUPYTER_PREFER_ENV_PATH=1",
		"PYTHONUTF8=1",
	)
}
