//! The largest machine that `#[fom]` takes: 255 phases. `fom-macros` tests that it refuses one more.

use fom_runtime::{prelude::*, time::TestClock};

use crate::kit::{Log, limited, one};

/// The number of phases that ran.
struct Chain(u32);

macro_rules! chain {
    ($($phase:ident $next:ident $function:ident),*) => {
        #[fom(operation(Chain), transient)]
        enum Chained {
            #[phase(start, sync, to(P1))]
            P0,
            $(
                #[phase(sync, to($next))]
                $phase,
            )*
            #[phase(end)]
            P254,
        }

        impl ChainedTransitions for Chain {
            fn p0(&mut self, _: &mut Cx<'_>) -> Result<(), BoxError> {
                self.0 += 1;
                Ok(())
            }
            $(
                fn $function(&mut self, _: &mut Cx<'_>) -> Result<(), BoxError> {
                    self.0 += 1;
                    Ok(())
                }
            )*
        }
    };
}

#[rustfmt::skip]
chain! {
    P1 P2 p1, P2 P3 p2, P3 P4 p3, P4 P5 p4, P5 P6 p5, P6 P7 p6, P7 P8 p7, P8 P9 p8, P9 P10 p9, P10 P11 p10, P11
    P12 p11, P12 P13 p12, P13 P14 p13, P14 P15 p14, P15 P16 p15, P16 P17 p16, P17 P18 p17, P18 P19 p18, P19 P20
    p19, P20 P21 p20, P21 P22 p21, P22 P23 p22, P23 P24 p23, P24 P25 p24, P25 P26 p25, P26 P27 p26, P27 P28 p27,
    P28 P29 p28, P29 P30 p29, P30 P31 p30, P31 P32 p31, P32 P33 p32, P33 P34 p33, P34 P35 p34, P35 P36 p35, P36
    P37 p36, P37 P38 p37, P38 P39 p38, P39 P40 p39, P40 P41 p40, P41 P42 p41, P42 P43 p42, P43 P44 p43, P44 P45
    p44, P45 P46 p45, P46 P47 p46, P47 P48 p47, P48 P49 p48, P49 P50 p49, P50 P51 p50, P51 P52 p51, P52 P53 p52,
    P53 P54 p53, P54 P55 p54, P55 P56 p55, P56 P57 p56, P57 P58 p57, P58 P59 p58, P59 P60 p59, P60 P61 p60, P61
    P62 p61, P62 P63 p62, P63 P64 p63, P64 P65 p64, P65 P66 p65, P66 P67 p66, P67 P68 p67, P68 P69 p68, P69 P70
    p69, P70 P71 p70, P71 P72 p71, P72 P73 p72, P73 P74 p73, P74 P75 p74, P75 P76 p75, P76 P77 p76, P77 P78 p77,
    P78 P79 p78, P79 P80 p79, P80 P81 p80, P81 P82 p81, P82 P83 p82, P83 P84 p83, P84 P85 p84, P85 P86 p85, P86
    P87 p86, P87 P88 p87, P88 P89 p88, P89 P90 p89, P90 P91 p90, P91 P92 p91, P92 P93 p92, P93 P94 p93, P94 P95
    p94, P95 P96 p95, P96 P97 p96, P97 P98 p97, P98 P99 p98, P99 P100 p99, P100 P101 p100, P101 P102 p101, P102
    P103 p102, P103 P104 p103, P104 P105 p104, P105 P106 p105, P106 P107 p106, P107 P108 p107, P108 P109 p108,
    P109 P110 p109, P110 P111 p110, P111 P112 p111, P112 P113 p112, P113 P114 p113, P114 P115 p114, P115 P116
    p115, P116 P117 p116, P117 P118 p117, P118 P119 p118, P119 P120 p119, P120 P121 p120, P121 P122 p121, P122
    P123 p122, P123 P124 p123, P124 P125 p124, P125 P126 p125, P126 P127 p126, P127 P128 p127, P128 P129 p128,
    P129 P130 p129, P130 P131 p130, P131 P132 p131, P132 P133 p132, P133 P134 p133, P134 P135 p134, P135 P136
    p135, P136 P137 p136, P137 P138 p137, P138 P139 p138, P139 P140 p139, P140 P141 p140, P141 P142 p141, P142
    P143 p142, P143 P144 p143, P144 P145 p144, P145 P146 p145, P146 P147 p146, P147 P148 p147, P148 P149 p148,
    P149 P150 p149, P150 P151 p150, P151 P152 p151, P152 P153 p152, P153 P154 p153, P154 P155 p154, P155 P156
    p155, P156 P157 p156, P157 P158 p157, P158 P159 p158, P159 P160 p159, P160 P161 p160, P161 P162 p161, P162
    P163 p162, P163 P164 p163, P164 P165 p164, P165 P166 p165, P166 P167 p166, P167 P168 p167, P168 P169 p168,
    P169 P170 p169, P170 P171 p170, P171 P172 p171, P172 P173 p172, P173 P174 p173, P174 P175 p174, P175 P176
    p175, P176 P177 p176, P177 P178 p177, P178 P179 p178, P179 P180 p179, P180 P181 p180, P181 P182 p181, P182
    P183 p182, P183 P184 p183, P184 P185 p184, P185 P186 p185, P186 P187 p186, P187 P188 p187, P188 P189 p188,
    P189 P190 p189, P190 P191 p190, P191 P192 p191, P192 P193 p192, P193 P194 p193, P194 P195 p194, P195 P196
    p195, P196 P197 p196, P197 P198 p197, P198 P199 p198, P199 P200 p199, P200 P201 p200, P201 P202 p201, P202
    P203 p202, P203 P204 p203, P204 P205 p204, P205 P206 p205, P206 P207 p206, P207 P208 p207, P208 P209 p208,
    P209 P210 p209, P210 P211 p210, P211 P212 p211, P212 P213 p212, P213 P214 p213, P214 P215 p214, P215 P216
    p215, P216 P217 p216, P217 P218 p217, P218 P219 p218, P219 P220 p219, P220 P221 p220, P221 P222 p221, P222
    P223 p222, P223 P224 p223, P224 P225 p224, P225 P226 p225, P226 P227 p226, P227 P228 p227, P228 P229 p228,
    P229 P230 p229, P230 P231 p230, P231 P232 p231, P232 P233 p232, P233 P234 p233, P234 P235 p234, P235 P236
    p235, P236 P237 p236, P237 P238 p237, P238 P239 p238, P239 P240 p239, P240 P241 p240, P241 P242 p241, P242
    P243 p242, P243 P244 p243, P244 P245 p244, P245 P246 p245, P246 P247 p246, P247 P248 p247, P248 P249 p248,
    P249 P250 p249, P250 P251 p250, P251 P252 p251, P252 P253 p252, P253 P254 p253
}

/// SM-17: a machine of 255 phases compiles and runs through all of them, and its indexes are the places of the
/// declaration.
#[test]
fn a_machine_of_255_phases_runs() {
    limited(|| async {
        assert_eq!(Chain::GRAPH.phases().len(), 255);
        let runtime = one(&TestClock::new()).build().unwrap();
        let log = Log::default();
        let heard = log.clone();
        let _listening = runtime.listen(move |step| heard.put(step.to().unwrap_or("failed")));
        let ended = runtime.submit(Chain(0)).await.unwrap();
        assert_eq!(ended.operation.0, 254);
        let last = ended.kind();
        assert_eq!((last, Chain::index(last)), (ChainedKind::P254, 254));
        let all: Vec<_> = (0..255).map(|number| format!("P{number}")).collect();
        assert_eq!(log.take(), all);
    });
}
