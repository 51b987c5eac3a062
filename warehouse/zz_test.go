package warehouse_test
import ("testing";"context";"time";"fmt";"os";"cvs/collect/artifact";"cvs/warehouse")
func TestZZ(t *testing.T){
 ctx:=context.Background(); w:=open(t,t.TempDir()+"/a.duckdb")
 d:="/work/shared/cases/c003-null-metric-is-missing"
 p,_:=planOf(d)
 base:=runOf(t,"x",d,p)
 data,_:=os.ReadFile(d+"/results/isl1024_osl1024_conc128/results.json")
 c0:=base.Expected.Cells[0]; specs:=base.Thresholds.Specs
 base.Expected.Cells=nil; base.Results=nil; base.Thresholds.Specs=nil
 for i:=1;i<=14;i++ { c:=c0; c.Key=fmt.Sprintf("ISL=1024,OSL=1024,TP=8,PP=1,CONC=%d",i); c.Concurrency=128; c.ID=fmt.Sprint("c",i)
  base.Expected.Cells=append(base.Expected.Cells,c); base.Results=append(base.Results,artifact.Result{Path:c.ID,Data:data,CellKey:c.Key})
  for _,s:=range specs { s.Target=c.Key; base.Thresholds.Specs=append(base.Thresholds.Specs,s)} }
 N:=1000
 t0:=time.Now()
 var runs []*artifact.Run
 for i:=0;i<N;i++ { r:=*base; st:=time.Unix(1.7e9+int64(i)*36000,0); r.Meta.RunID=st.UTC().Format("20060102T150405Z")+fmt.Sprint(i); r.Meta.StartedAt=&st; runs=append(runs,&r)}
 _,err:=w.Load(ctx,runs...); t.Log("load",time.Since(t0),err)
 id:=runs[N/2].Meta.RunID
 q:=func(n string,f func()error){ t0:=time.Now(); e:=f(); t.Log(n,time.Since(t0),e)}
 for range 2 {
 q("status",func()error{_,e:=w.RunStatus(ctx,id);return e})
 q("gates",func()error{_,e:=w.Gates(ctx,id);return e})
 q("metrics",func()error{_,e:=w.Metrics(ctx,id);return e})
 q("cellstatus",func()error{_,e:=w.CellStatus(ctx,id);return e})
 q("cells",func()error{_,e:=w.Cells(ctx,id);return e})
 q("tiers",func()error{_,e:=w.Tiers(ctx,id);return e})
 q("dq",func()error{_,e:=w.DataQuality(ctx,id);return e})
 q("checks",func()error{_,e:=w.CheckGates(ctx,id);return e})
 q("run",func()error{_,e:=w.Run(ctx,id);return e})
 q("runs",func()error{_,e:=w.Runs(ctx);return e})
 }
 _=warehouse.Options{}
}
