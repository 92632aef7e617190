//! What people do with a Village, the same in every shape of it.

mod abort;
mod failures;
mod fetch;
mod grants;
mod mcp;
mod pages;
mod players;
mod reading;
mod site;
mod transcript;

/// Makes each scenario a test in both shapes.
macro_rules! in_both_shapes {
    ($($scenario:ident),+ $(,)?) => {
        mod embedded_on_sqlite {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $scenario() {
                    super::$scenario($crate::village::Shape::Embedded).await;
                }
            )+
        }

        mod split_on_postgres_and_redis {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $scenario() {
                    super::$scenario($crate::village::Shape::Split).await;
                }
            )+
        }
    };
}

pub(crate) use in_both_shapes;
