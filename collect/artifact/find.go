package artifact

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// IsRunDir reports whether path is a run directory of this format: a folder
// whose run.json has a format_version, or whose run.json is damaged but stands
// beside other parts of one. Other layouts have a run.json too.
func IsRunDir(path string) bool {
	if st, err := os.Stat(path); err != nil || !st.IsDir() {
		return false // opening a pipe would wait for a writer
	}
	root, err := os.OpenRoot(path)
	if err != nil {
		return false
	}
	defer root.Close()
	b, err := (&reader{root: root}).file(runFile, maxJSON)
	if err != nil {
		return false
	}
	var head struct {
		FormatVersion json.RawMessage `json:"format_version"`
	}
	if json.Unmarshal(b, &head) == nil {
		return head.FormatVersion != nil
	}
	for _, part := range []string{expectedFile, stagesFile} {
		if _, err := root.Lstat(part); err == nil {
			return true
		}
	}
	return false
}

// FindRuns lists the run directories at or below root, in name order, which for
// runs of one folder is the order of time. It does not look inside run
// directories or hidden folders and follows no links. Folders that cannot be
// read are in the error; what was found elsewhere is returned with it.
func FindRuns(root string) ([]string, error) {
	var runs []string
	var errs []error
	// The separator makes a link that the user named count as the folder it leads to.
	root = filepath.Clean(root) + string(filepath.Separator)
	err := filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		switch {
		case err != nil && path == root:
			return err
		case err != nil:
			errs = append(errs, err)
			if e != nil && e.IsDir() {
				return fs.SkipDir
			}
		case !e.IsDir():
		case path != root && strings.HasPrefix(e.Name(), "."):
			return fs.SkipDir
		case IsRunDir(path):
			runs = append(runs, filepath.Clean(path))
			return fs.SkipDir
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("find runs: %w", err)
	}
	if len(errs) > 0 {
		return runs, fmt.Errorf("find runs: %w", errors.Join(errs...))
	}
	return runs, nil
}
