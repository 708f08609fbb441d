package main

import (
	"encoding/json"
	"os"
	"path/filepath"
)

// kernelName is how notebooks ask for the kernel.
const kernelName = "gonb"

// specPath is inside the virtual environment, where this JupyterLab and VS Code look, and no other
// Jupyter of the user does.
func specPath(p places) string {
	return filepath.Join(p.venv, "share", "jupyter", "kernels", kernelName, "kernel.json")
}

// kernelSpec tells Jupyter how to start GoNB: with this repository in its workspace, and with its
// tools and Go itself on PATH whatever PATH Jupyter was started with. Cells link without debug
// information, which takes a fifth off the time of one that draws.
func kernelSpec(p places) ([]byte, error) {
	list := string(os.PathListSeparator)
	spec := map[string]any{
		"argv":           []string{filepath.Join(p.bin, "gonb"), "-go_work=" + p.root, "--kernel", "{connection_file}"},
		"display_name":   "Go (forwardpass)",
		"language":       "go",
		"interrupt_mode": "message",
		"env": map[string]string{
			"PATH":             p.bin + list + filepath.Join(p.goroot, "bin") + list + "${PATH}",
			"GOFLAGS":          "-ldflags=-s",
			"GOWORK":           "",
			"FORWARDPASS_ROOT": p.root,
		},
	}
	data, err := json.MarshalIndent(spec, "", "  ")
	return append(data, '\n'), err
}

// overrides are JupyterLab's settings for this course: it asks nobody about news and updates.
const overrides = `{
  "@jupyterlab/apputils-extension:notification": {"fetchNews": "false", "checkForUpdates": false}
}
`

func overridesPath(p places) string {
	return filepath.Join(p.venv, "share", "jupyter", "lab", "settings", "overrides.json")
}
