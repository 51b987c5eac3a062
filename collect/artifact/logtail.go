package artifact

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
)

// A LogTail is the end of one log of a cell, as it lies in the run directory.
type LogTail struct {
	CellKey string
	Name    string // of the file in its run directory, e.g. cells/003-chat-conc64/1/client.log
	Text    string // bytes as they are: any encoding, control characters included
	Cut     bool   // the log is longer
}

// Bounds on the ends of logs of one cell, and of all cells together, in bytes.
const (
	maxCellLogs = 64 << 10
	maxAllLogs  = 2 << 20
	minCellLogs = 4 << 10
)

// LogTails reads the ends of the logs of those cells of the run directory dir
// that are in want: of each cell the last attempt's, the client's first. A cell
// gets at most 64 KiB, and less where many cells share 2 MiB. A folder that holds
// another run, or none, is an error; a cell without logs has none here.
func LogTails(dir, runID string, want map[string]bool) ([]LogTail, error) {
	if len(want) == 0 {
		return nil, nil
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("read logs: %w", err)
	}
	defer root.Close()
	r := &reader{root: root, run: &Run{Dir: dir}}
	if !decode(r, runFile, &r.run.Meta) || !decode(r, expectedFile, &r.run.Expected) {
		return nil, fmt.Errorf("read logs of %s: %s: %s", dir, r.run.Problems[0].Path, r.run.Problems[0].Msg)
	}
	if r.run.Meta.RunID != runID {
		return nil, fmt.Errorf("read logs: %s holds run %q, not %q", dir, r.run.Meta.RunID, runID)
	}
	budget := int64(max(min(maxCellLogs, maxAllLogs/len(want)), minCellLogs))
	var out []LogTail
	for i, c := range r.run.Expected.Cells {
		if !want[c.Key] {
			continue
		}
		cell := path.Join(cellsDir, CellFolder(i+1, c))
		last := 0
		for _, attempt := range r.folders(cell) {
			if n, err := strconv.Atoi(attempt); err == nil {
				last = max(last, n)
			}
		}
		if last == 0 {
			continue
		}
		folder := path.Join(cell, strconv.Itoa(last))
		logs := slices.DeleteFunc(r.files(folder), func(name string) bool { return path.Ext(name) != ".log" })
		for n, name := range logs {
			// What a short log leaves of its share is for the next one.
			tail, err := r.tail(path.Join(folder, name), budget*int64(n+1)/int64(len(logs))-used(out, c.Key))
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			if err != nil {
				return nil, fmt.Errorf("read logs of %s: %s: %w", dir, path.Join(folder, name), err)
			}
			tail.CellKey = c.Key
			out = append(out, tail)
		}
	}
	return out, nil
}

func used(tails []LogTail, key string) (n int64) {
	for _, t := range tails {
		if t.CellKey == key {
			n += int64(len(t.Text))
		}
	}
	return n
}

// tail reads at most limit bytes of the end of a file.
func (r *reader) tail(name string, limit int64) (LogTail, error) {
	f, size, err := openRegular(r.root, name)
	if err != nil {
		return LogTail{}, err
	}
	defer f.Close()
	from := max(size-limit, 0)
	data, err := io.ReadAll(io.NewSectionReader(f, from, limit))
	return LogTail{Name: name, Text: string(data), Cut: from > 0}, err
}
