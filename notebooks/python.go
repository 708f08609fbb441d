package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
)

// oldest is the first Python 3 that the pinned JupyterLab runs on.
const oldest = 10

// interpreter is a Python that can make the virtual environment.
type interpreter struct {
	path    string
	version string // "3.11.7"
}

// probe prints what findPython must know; it is written so that Python 2 can run it too.
const probe = `import sys
v = sys.version_info
try:
    import venv, ensurepip
    can = "venv"
except ImportError:
    can = "no-venv"
print("%d %d %d %s" % (v[0], v[1], v[2], can))`

// findPython takes the first of python3, python3.N (newest first) and python that is new enough and
// has the venv module.
func findPython(ctx context.Context) (interpreter, error) {
	names := []string{"python3"}
	for minor := 15; minor >= oldest; minor-- {
		names = append(names, fmt.Sprintf("python3.%d", minor))
	}
	names = append(names, "python")
	var tooOld, venvless string
	for _, name := range names {
		path, err := exec.LookPath(name)
		if err != nil {
			continue
		}
		out, err := exec.CommandContext(ctx, path, "-c", probe).Output()
		if err != nil {
			continue // a shim without a Python behind it
		}
		version, ok, hasVenv := readProbe(string(out))
		switch {
		case !ok:
			if tooOld == "" {
				tooOld = name + " is " + version
			}
		case !hasVenv:
			if venvless == "" {
				venvless = version
			}
		default:
			return interpreter{path, version}, nil
		}
	}
	return interpreter{}, pythonAdvice(tooOld, venvless)
}

func readProbe(out string) (version string, ok, hasVenv bool) {
	f := strings.Fields(out)
	if len(f) != 4 {
		return "unknown", false, false
	}
	major, _ := strconv.Atoi(f[0])
	minor, _ := strconv.Atoi(f[1])
	return strings.Join(f[:3], "."), major == 3 && minor >= oldest, f[3] == "venv"
}

func pythonAdvice(tooOld, venvless string) error {
	if venvless != "" {
		f := strings.SplitN(venvless, ".", 3)
		return fmt.Errorf("python %s has no venv module: on Debian and Ubuntu, apt install python%s.%s-venv, then run the same command again", venvless, f[0], f[1])
	}
	if tooOld != "" {
		return fmt.Errorf("%s, but JupyterLab needs Python 3.%d or newer: install one so that python3 finds it, then run the same command again", tooOld, oldest)
	}
	return errors.New("python3 was not found: install Python 3.10 or newer (Debian, Ubuntu: apt install python3 python3-venv; macOS: brew install python), then run the same command again")
}
