//! The paper's six panels: ratio against the low weight, a curve for each high weight, a panel for each limit.

use anyhow::Result;
use plotters::coord::Shift;
use plotters::prelude::*;
use std::path::Path;

use super::formula::{Policy, Setting};
use super::{PAPER_HIGH, PAPER_LIMITS, Point};
use crate::plots::{failed, save};

const SIZE_PIXELS: (u32, u32) = (1500, 960);
const GRID: (usize, usize) = (2, 3);
/// Ratios beyond this are cut off, so that the teeth can be seen.
const PER_LIMIT: f64 = 2.6;

/// Draws measured points over the formula's curves.
pub fn draw(path: &Path, points: &[Point], policy: Policy) -> Result<()> {
    save(path, |svg| {
        let root = SVGBackend::with_string(svg, SIZE_PIXELS).into_drawing_area();
        root.fill(&WHITE).map_err(failed)?;
        let title =
            "Bytes of the high VL per byte of the low VL: dots measured on the RTL, lines the formula";
        let root = root.titled(title, ("sans-serif", 22)).map_err(failed)?;
        for (area, q) in root.split_evenly(GRID).iter().zip(PAPER_LIMITS) {
            panel(area, q, points, policy)?;
        }
        root.present().map_err(failed)
    })
}

fn panel(area: &DrawingArea<SVGBackend, Shift>, q: u8, points: &[Point], policy: Policy) -> Result<()> {
    let top = 2.0 * f64::from(q) * PER_LIMIT;
    let mut chart = ChartBuilder::on(area)
        .caption(format!("Q = {q}"), ("sans-serif", 18))
        .margin(8)
        .x_label_area_size(36)
        .y_label_area_size(44)
        .build_cartesian_2d(0.0..256.0, 0.0..top)
        .map_err(failed)?;
    let mut mesh = chart.configure_mesh();
    mesh.x_desc("L, units of 64 bytes")
        .y_desc("ratio")
        .light_line_style(TRANSPARENT);
    mesh.draw().map_err(failed)?;
    for (index, h) in PAPER_HIGH.into_iter().enumerate() {
        let color = Palette99::pick(index).to_rgba();
        let curve = (1..=254u8).map(|l| (f64::from(l), Setting { q, h, l }.ratio(policy, super::MTU_BYTES)));
        let curve = curve.filter(|(_, y)| *y <= top);
        let line = LineSeries::new(curve, color.stroke_width(1));
        chart
            .draw_series(line)
            .map_err(failed)?
            .label(format!("H = {h}"))
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 16, y)], color.stroke_width(2)));
        let measured = points
            .iter()
            .filter(|p| p.setting.q == q && p.setting.h == h && p.ratio <= top);
        let dots = measured.map(|p| Circle::new((f64::from(p.setting.l), p.ratio), 3, color.filled()));
        chart.draw_series(dots).map_err(failed)?;
    }
    let mut labels = chart.configure_series_labels();
    labels
        .position(SeriesLabelPosition::UpperRight)
        .background_style(WHITE.mix(0.8));
    labels.border_style(BLACK).draw().map_err(failed)
}
